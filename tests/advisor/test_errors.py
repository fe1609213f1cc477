"""A message about a name names the way out, however many names there are."""

from advisor.errors import unknown_name


def test_near_names_are_offered_before_any_list():
    assert "did you mean gp3?" in str(unknown_name("disk type", "gp33", ["gp3", "local"]))


def test_a_list_that_is_cut_says_how_much_is_missing():
    said = str(unknown_name("GPU", "zzz", [f"card {i:02}" for i in range(20)]))
    assert said.endswith("card 11 and 8 more")


def test_thousands_of_names_are_left_to_the_command_that_lists_them():
    said = str(unknown_name("instance type", "zzz", ["a", "b"], listed_by="advisor catalog list"))
    assert said.endswith("`advisor catalog list` lists those that are known")
