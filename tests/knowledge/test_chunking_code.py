import pytest

from knowledge.chunking import Piece, chunk

BODY = "".join(f"    total = total + {number} * factor\n" for number in range(12))


def holding(pieces: list[Piece], text: str) -> Piece:
    return next(piece for piece in pieces if text in piece.text)


def test_it_works() -> None:
    body = "import os\n\n\n" + "\n\n".join(
        f"def part_{name}(total, factor):\n{BODY}    return total\n" for name in "abcd"
    )
    pieces = chunk("parts.py", body)
    assert [piece.trail for piece in pieces if "def " in piece.text] == [
        (),  # with the import above it
        ("part_b",),
        ("part_c",),
        ("part_d",),
    ]
    assert all(piece.text.count("def ") <= 1 for piece in pieces)
    assert all(piece.text.startswith(("import", "def")) for piece in pieces)


def test_small_functions_are_never_cut() -> None:
    functions = [f"def small_{number}():\n    first = {number}\n\n    return first\n" for number in range(80)]
    pieces = chunk("small.py", "\n\n".join(functions))
    assert all(any(function.strip() in piece.text for piece in pieces) for function in functions)


def test_methods_carry_their_class() -> None:
    methods = "\n".join(
        f"    @cached\n    # why\n    def method_{name}(self):\n" + BODY.replace("    ", "        ") + "\n"
        for name in "abc"
    )
    pieces = chunk("thing.py", f"class Thing(Base):\n    '''What it is.'''\n\n{methods}")
    piece = holding(pieces, "def method_b")
    assert piece.trail == ("Thing", "method_b")
    assert piece.text.lstrip().startswith("@cached")


def test_a_long_function_is_opened_and_keeps_its_name() -> None:
    body = "async def long():\n" + BODY * 6 + "    return total\n"
    pieces = chunk("long.py", body)
    assert len(pieces) > 1
    assert {piece.trail for piece in pieces} == {("long",)}


def test_a_string_over_many_lines_is_no_structure() -> None:
    query = "".join(f"SELECT {number} FROM somewhere\n" for number in range(8))
    source = f'def query():\n    text = """\n{query}"""\n    return text\n'
    assert holding(chunk("query.py", f"{BODY.replace('    ', '') * 2}\n\n{source}"), "SELECT 0").text.endswith(
        "return text"
    )


@pytest.mark.filterwarnings("error")
def test_python_that_does_not_parse_still_has_names() -> None:
    body = f'def broken(:\n    pattern = "\\d"\n{BODY}\n\ndef whole(total):\n{BODY * 3}'
    assert {name for piece in chunk("broken.py", body) for name in piece.trail} == {"broken", "whole"}


@pytest.mark.parametrize(
    ("path", "source", "inside", "trail"),
    [
        (
            "a.ts",
            "export class Cart {\n  async add(item: Item): Promise<void> {\n    HERE\n  }\n}\n",
            "HERE",
            ("Cart", "add"),
        ),
        ("a.js", "const load = async (id) => {\n  HERE\n};\n", "HERE", ("load",)),
        ("a.tsx", "export default function Page() {\n  if (x) {\n    HERE\n  }\n}\n", "HERE", ("Page",)),
        ("a.go", "func (s *Server) Start(port int) error {\n\tHERE\n}\n", "HERE", ("Server.Start",)),
        (
            "a.rs",
            "impl<T> Display for Grid<T> {\n    pub fn draw(&self) {\n        HERE\n    }\n}\n",
            "HERE",
            ("Grid", "draw"),
        ),
        (
            "A.java",
            "public class Till {\n    private int sum(int a) {\n        HERE\n    }\n}\n",
            "HERE",
            ("Till", "sum"),
        ),
        ("a.cs", "class Till\n{\n    int Sum(int a)\n    {\n        HERE\n    }\n}\n", "HERE", ("Till", "Sum")),
        ("a.c", "static int\nwalk_tree(struct node *n)\n{\n    HERE\n}\n", "HERE", ()),
        ("a.cpp", "namespace io {\nvoid Reader::open(const char* p) {\n    HERE\n}\n}\n", "HERE", ("Reader::open",)),
        ("a.kt", "class Till {\n    fun sum(a: Int): Int {\n        HERE\n    }\n}\n", "HERE", ("Till", "sum")),
        ("a.swift", "struct Till {\n    func sum(a: Int) -> Int {\n        HERE\n    }\n}\n", "HERE", ("Till", "sum")),
        ("a.php", "class Till {\n    public function sum($a) {\n        HERE\n    }\n}\n", "HERE", ("Till", "sum")),
        (
            "a.rb",
            "module Shop\n  class Till\n    def sum(a)\n      HERE\n    end\n  end\nend\n",
            "HERE",
            ("Shop", "Till", "sum"),
        ),
        ("a.sh", "deploy() {\n  HERE\n}\n", "HERE", ("deploy",)),
        ("a.ps1", "function Get-Till {\n  HERE\n}\n", "HERE", ("Get-Till",)),
        ("a.sql", "CREATE OR REPLACE FUNCTION total(a int) RETURNS int AS $$\n  HERE\n$$;\n", "HERE", ("total",)),
        ("a.css", ".till, .shop {\n  HERE\n}\n", "HERE", (".till, .shop",)),
        ("a.yaml", "services:\n  web:\n    HERE: 1\n", "HERE", ("services", "web")),
        ("a.json", '{\n  "services": {\n    "web": {\n      HERE\n    }\n  }\n}\n', "HERE", ("services", "web")),
        ("a.toml", "[tool.ruff]\nHERE = 1\n", "HERE", ("tool.ruff",)),
        ("Makefile", "deploy: build\n\tHERE\n", "HERE", ("deploy",)),
    ],
)
def test_each_language_names_what_encloses(path: str, source: str, inside: str, trail: tuple[str, ...]) -> None:
    line = next(row for row in source.split("\n") if inside in row)
    long = source.replace(line, "\n".join(line.replace(inside, f"{inside}_{number}") for number in range(150)))
    assert holding(chunk(path, long), f"{inside}_75").trail == trail


def test_words_of_the_language_are_no_names() -> None:
    body = "int main(int count) {\n" + "    if (count > 0) {\n        return run(count);\n    }\n" * 40 + "}\n"
    assert {piece.trail for piece in chunk("main.c", body)} == {("main",)}


def test_full_ranges_end_at_blank_lines() -> None:
    body = "\n".join("".join(f"set_{group}_{number} = {number}\n" for number in range(9)) for group in range(12))
    starts = [piece.text.partition(" ")[0] for piece in chunk("settings.py", body)]
    assert all(start.endswith("_0") for start in starts)


def test_configuration_is_cut_between_entries() -> None:
    body = "jobs:\n" + "".join(
        f"  job_{n}:\n    image: one\n    steps:\n      - first\n      - second\n" for n in range(60)
    )
    pieces = chunk("ci.yml", body)
    assert all(piece.text.startswith(("jobs:", "job_")) for piece in pieces)
    assert pieces[3].trail == ("jobs",)
