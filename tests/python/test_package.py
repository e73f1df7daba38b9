"""The package as a whole: stubs and docstrings keep up with the code, paths lead somewhere, subpackages may join."""

import ast
import inspect
import os
import re
import subprocess
import sys

import tutti

HERE = os.path.dirname(tutti.__file__)
STUB = ast.parse(open(os.path.join(HERE, "__init__.pyi")).read())


def stub_names(body):
    names = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return names


def test_the_stub_has_every_public_name():
    assert set(tutti.__all__) <= stub_names(STUB.body)


def test_the_stub_has_every_method_and_no_other():
    for cls in (tutti.Communicator, tutti.Batch, tutti.Work):
        node = next(node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
        public = {name for name in dir(cls) if not name.startswith("_")}
        assert {name for name in stub_names(node.body) if not name.startswith("_")} == public


def test_the_stub_has_the_parameters_of_every_method():
    node = next(node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == "Communicator")
    for method in (node for node in node.body if isinstance(node, ast.FunctionDef)):
        function = getattr(tutti.Communicator, method.name)
        signature = getattr(function, "__nb_signature__", None)
        if not signature or method.name.startswith("_"):
            continue
        stubbed = {arg.arg for arg in method.args.args + method.args.kwonlyargs}
        real = set(re.findall(r"[(, ](\w+)(?=:| =|,|\))", signature[0][0].split("->")[0])) | {"self"}
        assert stubbed <= real, (method.name, stubbed, real)


def test_everything_public_says_what_it_is():
    for name in tutti.__all__:
        thing = getattr(tutti, name)
        if inspect.isclass(thing) or callable(thing):
            assert thing.__doc__, name
    for name in dir(tutti.Communicator):
        if not name.startswith("_"):
            assert getattr(tutti.Communicator, name).__doc__, name


def test_paths_lead_to_what_programs_are_built_with(tmp_path):
    assert os.path.exists(os.path.join(tutti.include_dir(), "tutti", "tutti.h"))
    assert os.path.exists(os.path.join(tutti.library_dir(), "libtutti.so"))
    source = tmp_path / "version.c"
    source.write_text('#include <stdio.h>\n#include <tutti/tutti.h>\nint main(void) { puts(tutti_version()); }\n')
    program = tmp_path / "version"
    subprocess.run(["cc", source, "-I", tutti.include_dir(), "-L", tutti.library_dir(), "-ltutti",
                    f"-Wl,-rpath,{tutti.library_dir()}", "-o", program], check=True)
    assert subprocess.check_output([program], text=True).strip() == tutti.__version__


def test_another_distribution_may_put_a_subpackage_here(tmp_path):
    # As tutti-torch does; here by a path that is searched after the package's own.
    (tmp_path / "guest").mkdir()
    (tmp_path / "guest" / "__init__.py").write_text("import tutti\nsize = tutti.init().size\n")
    code = f"import tutti; tutti.__path__.append({str(tmp_path)!r}); import tutti.guest; print(tutti.guest.size)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "1\n"


def test_the_module_is_the_command():
    tool = os.environ["TUTTI_TOOL"]
    environment = {**os.environ, "PATH": os.path.dirname(tool) + os.pathsep + os.environ["PATH"]}
    said = subprocess.check_output([sys.executable, "-m", "tutti", "--version"], text=True, env=environment)
    assert tutti.__version__ in said


def test_leaving_without_close_is_leaving_in_good_order(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import numpy, tutti\ncomm = tutti.init()\nprint(comm.all_reduce(numpy.ones(1)))\n")
    done = subprocess.run([os.environ["TUTTI_TOOL"], "run", "-n", "3", "--", sys.executable, script],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == [f"[{rank}] [3.]" for rank in range(3)]
