"""Names that do something where somebody does not look: in pages, spreadsheets, pull requests."""

HOSTILE = (
    "<script>alert(1)</script>",
    '=HYPERLINK("http://example.org","click")',
    "@SUM(1+9)*cmd|' /C calc'!A0",
    "+1|2 and `code` with $x^2$ and **stars**",
    "-- </details> <!-- [link](javascript:alert(1)) &copy; #12 @team",
    "图像分类 — обучение — 推理",
    "👩‍💻🚀 ünïcødé",
    "x" * 300,
    "a, \"b\"; 'c'\\d",
    "NA",
    '"><img src=x onerror=alert(1)>',
    "{{ 7*7 }} {% raw %}",
    "a&amp;b </style><b>",
)


def renamed(document, names=HOSTILE):
    """The document with these names for its title, its workloads and their networks, one after the
    other."""
    sections = []
    for index, section in enumerate(document["workloads"]):
        name = {"model": names[index % len(names)]}
        recommendation = {**section["recommendation"], "request": section["recommendation"]["request"] | name}
        answer = section["answer"] | name
        sections.append(
            {**section, "name": name["model"], "answer": answer, "recommendation": recommendation}
        )
    return {**document, "title": names[0], "workloads": sections}


def with_name(document, name):
    """One workload alone, called so; so is its network."""
    first = document["workloads"][0]
    answer = {**first["answer"], "model": name}
    command = f"advisor recommend --model {name}"
    section = {**first, "name": name, "answer": answer, "command": command}
    return {**document, "title": name, "workloads": [section]}
