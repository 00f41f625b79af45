# Two commands: `make lab` to learn, `make test` to check everything. `make` alone lists all targets.

PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif

.DEFAULT_GOAL := help
.PHONY: help lab test style types generated test-all build book pictures readme constraints clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)$$/make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

lab:  ## install what is missing, copy the chapters to work/ and open JupyterLab there
	@$(PYTHON) course/install.py lab
	@$(BIN)/attend lab

test:  ## check everything: style, types, notebooks up to date, tests
	@$(PYTHON) course/install.py test
	@$(MAKE) --no-print-directory -j2 types generated
	@$(BIN)/pytest --quiet -n 4 --dist loadscope --no-loadscope-reorder -m "not deep"

style:
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet

types: style
	@$(BIN)/pyright --level error

generated: style
	@$(BIN)/attend build --check
	@$(BIN)/attend readme --check

test-all: test  ## the same, then the deep tests: every mutant, compiled case and notebook
	@$(BIN)/pytest --quiet -n 4 --dist loadscope --no-loadscope-reorder -m deep

build:  ## rebuild the learners' notebooks from the chapters' sources
	@$(PYTHON) course/install.py test
	@$(BIN)/attend build

readme:  ## rewrite the generated parts of README.md
	@$(PYTHON) course/install.py test
	@$(BIN)/attend readme

book:  ## run the chapters and make a site of them to read, in dist/book
	@$(PYTHON) course/install.py test
	@$(BIN)/attend book --out dist/book

pictures:  ## draw the notebooks' pictures and, in Chromium, the README's
	@$(PYTHON) course/install.py test
	@$(BIN)/attend pictures
	@$(BIN)/attend build
	@$(BIN)/pytest --quiet course/tests/test_pictures.py
	@mkdir -p course/pictures
	@for name in card widget; do cp artifacts/screenshots/readme-$$name.png course/pictures/$$name.png; done

constraints:  ## pin the newest versions that pyproject.toml admits
	@$(PYTHON) course/install.py test
	@$(BIN)/uv pip compile --quiet --upgrade --universal --all-extras --no-annotate --no-emit-index-url \
	  --custom-compile-command "make constraints" pyproject.toml -o constraints.txt

clean:  ## remove what make made, except work/
	rm -rf .venv artifacts dist build
