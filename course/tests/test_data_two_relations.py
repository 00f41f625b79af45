"""People, friends and houses: what the rows promise."""

import pytest
import torch
from attend.data.two_relations import FEATURES, HOUSES, NAMES, VALUES, two_relations

PEOPLE = len(NAMES)


def test_the_same_seed_gives_the_same_rows() -> None:
    one, same, other = two_relations(3, 5), two_relations(3, 5), two_relations(4, 5)
    assert torch.equal(one.x, same.x)
    assert torch.equal(one.answers, same.answers)
    assert not torch.equal(one.x, other.x)


def test_shapes() -> None:
    data = two_relations(0, 7, width=64)
    assert data.x.shape == (7, PEOPLE, 64)
    assert data.x.dtype == torch.float32
    assert data.x[..., FEATURES:].eq(0).all()
    assert data.answers.shape == (7, PEOPLE, 2, VALUES)
    assert data.places.shape == (7, PEOPLE, 2)
    assert sorted(data.row(2)) == list(NAMES)


def test_answers_can_be_found_from_what_the_people_say() -> None:
    data = two_relations(1, 50)
    name, friend, rest = data.x.split((PEOPLE, PEOPLE, data.x.shape[-1] - 2 * PEOPLE), dim=-1)
    house, first = rest[..., :HOUSES], rest[..., HOUSES]
    values = rest[..., HOUSES + 1 : HOUSES + 1 + VALUES]
    assert torch.equal(friend @ name.mT @ values, data.answers[:, :, 0])
    assert torch.equal((house @ house.mT * first[:, None]) @ values, data.answers[:, :, 1])
    assert torch.equal(name.argmax(-1), data.names)


def test_the_two_answers_are_different_people_and_none_is_oneself_as_friend() -> None:
    places = two_relations(2, 200).places
    assert places[..., 0].ne(places[..., 1]).all()
    assert places[..., 0].ne(torch.arange(PEOPLE)).all()
    counts = places[..., 0].flatten().bincount(minlength=PEOPLE) / 200
    assert counts.min() > 0.5, "everyone is somebody's friend about once a row"
    assert counts.max() < 1.5


def test_numbers_are_standard_normal() -> None:
    answers = two_relations(0, 2000).answers
    assert answers.mean().abs() < 0.02
    assert abs(answers.square().mean() - 1) < 0.02
    pairs = (answers[:, :, 0] * answers[:, :, 1]).mean()
    assert pairs.abs() < 0.02, "one answer says nothing of the other"


@pytest.mark.parametrize(
    ("arguments", "message"), [((0, 4, 31), "takes 32 numbers"), ((0, 0), "at least one row")]
)
def test_bad_sizes_are_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        two_relations(*arguments)
