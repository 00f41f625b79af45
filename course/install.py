"""Make .venv and install the course into it: ``python3 course/install.py [lab | test]``.

Runs before anything is installed, on whatever Python there is, so: standard library only, and
syntax that old Pythons can read too, to be told in one sentence that they are too old.
When nothing has changed since the last install it returns at once.
"""

import hashlib
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, ".attend-installed")
WHAT = {"lab": ["lab"], "test": ["lab", "test"]}  # what each kind of install is good for


def main(kind):
    """Install for ``kind`` ("lab" or "test") unless that is done already; return an exit code."""
    if sys.version_info < OLDEST:
        return fail(
            "Attend needs Python %d.%d or newer, and %s is Python %d.%d. Install a newer one, then "
            "run: make %s PYTHON=/path/to/it"
            % (OLDEST + (sys.executable or "this",) + tuple(sys.version_info[:2]) + (kind,))
        )
    fingerprint = fingerprint_of(ROOT)
    stamp = read_stamp()
    in_place = stamp.get("root") == ROOT and os.path.exists(python())
    if in_place and stamp["fingerprint"] == fingerprint and kind in stamp["for"].split():
        return 0
    if not os.access(ROOT, os.W_OK):
        return fail("%s is read-only, so .venv cannot be made there. Clone it elsewhere." % ROOT)
    if os.path.exists(STAMP):
        os.remove(STAMP)  # an interrupted install must not pass for a finished one
    usable = stamp.get("root", ROOT) == ROOT and pip_works()  # a moved .venv is not
    if not usable and not make_venv():
        return fail(
            "Python's venv module could not make .venv (see above). On Debian and Ubuntu: "
            "sudo apt install python3-venv. Then run make %s again." % kind
        )
    print("Installing the course into .venv (the first time takes some minutes) ...")
    sys.stdout.flush()
    if not install("test" in WHAT[kind]):
        return fail(
            "The install did not finish (see above). Check the network, then run make %s again."
            % kind
        )
    with open(STAMP, "w") as file:
        file.write("root=%s\nfingerprint=%s\nfor=%s\n" % (ROOT, fingerprint, " ".join(WHAT[kind])))
    return 0


def fingerprint_of(root):
    """Digest of all that decides what gets installed."""
    digest = hashlib.sha256(sys.version.encode())
    for name in ("pyproject.toml", "constraints.txt"):
        with open(os.path.join(root, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def read_stamp():
    """Return what the last finished install recorded; empty if there was none."""
    try:
        with open(STAMP) as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except OSError:
        return {}


def python():
    """Path of the environment's own Python."""
    if os.name == "nt":
        return os.path.join(VENV, "Scripts", "python.exe")
    return os.path.join(VENV, "bin", "python")


def pip_works():
    """Tell whether .venv is whole: an interrupted start leaves one without pip."""
    check = "import sys, pip; sys.exit(sys.version_info < %r)" % (OLDEST,)
    try:
        return subprocess.call([python(), "-c", check], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def make_venv():
    """Make .venv afresh; tell whether that worked."""
    shutil.rmtree(VENV, ignore_errors=True)
    return subprocess.call([sys.executable, "-m", "venv", VENV]) == 0


def install(with_tests):
    """Install the pinned packages, the build backend first, so that it is pinned as well."""
    pip = [python(), "-m", "pip", "--disable-pip-version-check", "install"]
    pip += [] if sys.stdout.isatty() else ["-qq"]  # errors only
    pip += ["--constraint", os.path.join(ROOT, "constraints.txt")]
    course = ROOT + ("[test]" if with_tests else "")
    return (
        subprocess.call(pip + ["hatchling", "editables"]) == 0
        and subprocess.call(pip + ["--no-build-isolation", "--editable", course]) == 0
    )


def fail(sentence):
    """Print one sentence where errors go; return the exit code."""
    sys.stderr.write(sentence + "\n")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "lab"))
    except KeyboardInterrupt:
        sys.exit(fail("Stopped. The next make continues the install."))
