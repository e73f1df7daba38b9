"""The page of `tutti view` in a real Chromium: tests/view/browser_test.py TUTTI PICTURES [--take]

What ranks hold is compared with what `tutti show` draws, at every step, forwards and backwards, for all algorithms.
PICTURES is the folder of the docs' screenshots, which are compared loosely, or taken anew.
"""
import base64
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.support.ui import WebDriverWait

TUTTI, PICTURES, TAKE = sys.argv[1], pathlib.Path(sys.argv[2]), "--take" in sys.argv[3:]
MOST_BYTES = 600_000
SAME = 0.06  # the part of a picture that may differ: other fonts, other versions of the browser

# What the matrix draws, in the words of `tutti show`: 01 held, ‹23 arrived, ✓ complete.
CONTENTS = """
const playback = tutti.model.playback, text = (ranks) => ranks.length ? ranks.join("") : "·";
return Array.from({ length: playback.rows }, (_, rank) => Array.from({ length: playback.columns }, (_, block) =>
  text(playback.held(rank, block)) + playback.arrived(rank, block).map((set) => "‹" + text(set)).join("") +
  (playback.complete(rank, block) ? "✓" : "")));
"""


def tutti(*arguments):
    ended = subprocess.run([TUTTI, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise AssertionError(f"tutti {' '.join(arguments)}: {ended.stderr}")
    return ended.stdout


def drawn_states(verb, algorithm, ranks, *options):
    """What `tutti show` draws after every round, by rank and block; None where it draws bars."""
    text = tutti("show", verb, "-a", algorithm, "-n", str(ranks), *options)
    text = text[text.index("\nstart\n"):]
    states, grid = [], None
    for line in text.splitlines()[1:] + ["done"]:
        row = re.match(r"  rank (\d+)(?: +(\S.*))?$", line)
        if row:
            if int(row[1]) == 0:
                grid = []
            grid.append((row[2] or "").split())
        elif re.match(r"start|round \d|done|stuck", line):
            if line != "start" and grid is not None:
                states.append(grid)
            if line.startswith("done"):
                break
    return states if states and "▁" not in text and "█" not in text else None


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--window-size=1440,900", "--hide-scrollbars", "--force-device-scale-factor=1",
                         "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"):
            options.add_argument(argument)
        if os.getuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.binary_location = "/usr/bin/chromium"
        cls.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        cls.folder.cleanup()

    def open(self, *arguments, fragment="theme=light"):
        path = pathlib.Path(self.folder.name) / (re.sub(r"\W+", "-", "-".join(map(os.path.basename, arguments))) + ".html")
        if not path.exists():
            tutti("view", *arguments, "--output", str(path))
        self.driver.get("about:blank")  # so that a fragment alone opens the page anew
        self.driver.get(f"file://{path}#{fragment}")
        WebDriverWait(self.driver, 60).until(lambda driver: driver.execute_script("return window.tutti?.openedMs > 0"))
        return path

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def key(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def tearDown(self):
        errors = [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(errors, [], "the console is to stay empty")

    def test_plays_what_the_interpreter_plays(self):
        self.open("--gallery")
        documents = self.js("return tutti.gallery.documents.map(({ verb, algorithm, ranks, hosts }) => "
                            "({ verb, algorithm, ranks, several: new Set(hosts).size > 1 }))")
        self.assertGreater(len(documents), 60)
        compared = set()
        for number, one in enumerate(documents):
            options = ["--hosts", "2"] if one["several"] else []
            states = drawn_states(one["verb"], one["algorithm"], one["ranks"], *options)
            if states is None:
                continue
            self.js("tutti.open(tutti.gallery.documents[arguments[0]])", number)
            last = len(states) - 1
            self.assertEqual(self.js("return tutti.model.length"), last, one)
            for step in [*range(last + 1), *range(last - 1, -1, -1)]:
                self.js("tutti.seek(arguments[0])", step)
                found, wanted = self.js(CONTENTS), states[step]
                if any(wanted):  # a barrier holds nothing
                    self.assertEqual(found, wanted, f"{one} after round {step}")
            compared.add(one["verb"])
        self.assertEqual(compared, {one["verb"] for one in documents}, "every verb is compared")

    def test_keys_step_and_play(self):
        states = drawn_states("all_reduce", "ring", 4)
        self.open("all_reduce", "-a", "ring", "-n", "4")
        for step in range(1, 4):
            self.key(Keys.ARROW_RIGHT)
            self.assertEqual(self.js(CONTENTS), states[step])
        self.key(Keys.ARROW_LEFT)
        self.assertEqual(self.js(CONTENTS), states[2])
        self.key(Keys.END)
        self.assertEqual(self.js(CONTENTS), states[-1])
        self.key(Keys.HOME)
        self.assertEqual(self.js(CONTENTS), states[0])
        self.key("++++")
        self.assertEqual(self.js("return tutti.speed"), 16)
        self.key(Keys.SPACE)
        WebDriverWait(self.driver, 30).until(lambda driver: not self.js("return tutti.playing"))
        self.assertEqual(self.js(CONTENTS), states[-1], "played to the end")
        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN).key_up(Keys.SHIFT).perform()
        self.assertEqual(self.js("return tutti.chosen.row"), 1, "the first choice, then one down")
        WebDriverWait(self.driver, 10).until(lambda driver: "Rank 1" in self.js("return tutti.detail.textContent"))
        self.key(Keys.ESCAPE)
        self.assertIsNone(self.js("return tutti.chosen"))

    def test_a_click_tells_the_contributions_of_a_cell(self):
        self.open("all_reduce", "-a", "ring", "-n", "4", fragment="at=2")
        canvas = self.driver.find_element("css selector", "#pane-matrix canvas")
        place = self.js("const pane = tutti.views.find((view) => view.area === 'matrix');"
                        "const { left, top, cellWidth, cellHeight } = pane.pane.place(pane.width, pane.height);"
                        "return [left + 2.5 * cellWidth - pane.width / 2, top + 0.5 * cellHeight - pane.height / 2];")
        ActionChains(self.driver).move_to_element_with_offset(canvas, int(place[0]), int(place[1])).click().perform()
        self.assertEqual(self.js("return [tutti.chosen.row, tutti.chosen.column]"), [0, 2])
        WebDriverWait(self.driver, 10).until(lambda driver: "Rank 0, block 2" in self.js("return tutti.detail.textContent"))
        self.assertIn("message from rank 3", self.js("return tutti.detail.textContent"))

    def test_groups_of_many_ranks_fill_the_page(self):
        self.open("all_reduce", "-a", "ring", "-n", "70")
        heights = self.js("return [...document.querySelectorAll('.pane')].map((pane) => pane.clientHeight)")
        room = self.js("return document.querySelector('.panes').clientHeight")
        self.assertEqual(len(heights), 3)
        self.assertGreater(min(heights), 0.9 * room)
        self.assertEqual(self.js("return tutti.model.playback.rows"), 35)

    def test_both_themes(self):
        self.open("broadcast", "-n", "8", fragment="theme=light")
        background = "return getComputedStyle(document.body).backgroundColor"
        light = self.js(background)
        self.key("t")
        self.assertEqual(self.js("return document.documentElement.dataset.theme"), "dark")
        self.assertNotEqual(self.js(background), light)

    def test_the_address_restores_the_view(self):
        self.open("all_gather", "-a", "ring", "-n", "8", fragment="at=3.5&speed=4&theme=dark&rank=5&block=2&heat=off&map=cluster")
        self.assertEqual(self.js("return [tutti.position, tutti.speed, tutti.theme.name, tutti.chosen.row, tutti.options.heat,"
                                 "tutti.options.map]"), [3.5, 4, "dark", 5, "off", "cluster"])
        self.key(Keys.ARROW_RIGHT)
        WebDriverWait(self.driver, 10).until(lambda driver: "at=4&" in driver.current_url)

    def test_the_address_restores_the_window_and_the_chosen_box(self):
        self.open("all_gather", "-a", "ring", "-n", "8", fragment="clock=rounds&from=2&to=5.5&rank=3&block=1&box=19")
        seen = "return [tutti.gantt.window, tutti.chosen.row, tutti.gantt.source.boxes.indexOf(tutti.chosen.box)]"
        self.assertEqual(self.js(seen), [[2, 5.5], 3, 19])
        address = self.js("return tutti.fragment()")
        for part in ("from=2&to=5.5", "rank=3&block=1&box=19"):
            self.assertIn(part, address)
        self.js("location.hash = 'at=1'")
        WebDriverWait(self.driver, 10).until(lambda driver: self.js("return tutti.position") == 1)
        self.assertEqual(self.js("return [tutti.gantt.window, tutti.chosen, tutti.options.clock]"),
                         [None, None, "simulated time"], "what the address does not name")

    def test_the_window_is_never_too_short_to_be_drawn(self):
        path = pathlib.Path(self.folder.name) / "long.json"
        text = long_trace(16)
        path.write_text(text.replace('"dur": 20,', '"dur": 2762125.5,', 1))
        address = "from=2762125.495068&to=2762125.4950680005"
        self.open("--file", str(path), fragment=address)
        begin, end = self.js("return tutti.gantt.window")
        self.assertTrue(begin <= 2762125.495068 <= end and end - begin < 0.01, (begin, end))
        drawn = self.js("return tutti.drawn")
        for _ in range(3):
            self.js("for (let i = 0; i < 300; ++i) tutti.gantt.wheel(500, -1, 1000, 400)")
            WebDriverWait(self.driver, 10).until(lambda driver: self.js("return tutti.drawn") > drawn)
            drawn = self.js("return tutti.drawn")
        seen = self.js("return tutti.gantt.window")
        self.assertLess(seen[0], seen[1])
        self.open("--file", str(path), fragment=self.js("return tutti.fragment()"))
        for was, there in zip(seen, self.js("return tutti.gantt.window")):
            self.assertAlmostEqual(was, there, delta=0.1 * (seen[1] - seen[0]))

    def test_an_address_of_another_document_brings_its_theme(self):
        self.open("--gallery", fragment="theme=light")
        one, other = self.js("return tutti.gallery.documents.slice(0, 2).map((one) => { tutti.open(one); return tutti.fragment(); })"
                             ".map((text) => new URLSearchParams(text).get('show'))")
        for show, theme in ((one, "dark"), (other, "light")):
            self.js("location.hash = new URLSearchParams({ show: arguments[0], theme: arguments[1] })", show, theme)
            WebDriverWait(self.driver, 10).until(
                lambda driver: show in self.js("return new URLSearchParams(tutti.fragment()).get('show')"))
            self.assertEqual(self.js("return document.documentElement.dataset.theme"), theme)

    def test_an_address_that_names_too_much_is_brought_within(self):
        for fragment, chosen in (("rank=99&block=99", [7, 7]), ("rank=-3", [0, 0]), ("rank=x&block=2", None),
                                 ("rank=2&block=x", [2, 0]), ("from=9&to=3&at=1e9&rank=1&box=1e9", [1, 0])):
            self.open("all_gather", "-a", "ring", "-n", "8", fragment=fragment)
            self.assertEqual(self.js("return tutti.chosen && [tutti.chosen.row, tutti.chosen.column]"), chosen, fragment)
            self.assertIsNone(self.js("return tutti.gantt.window"), fragment)

    def test_an_error_does_not_stop_the_page(self):
        self.open("all_gather", "-a", "ring", "-n", "8")
        self.driver.set_script_timeout(30)
        self.js("window.addEventListener('error', (event) => event.preventDefault());"
                "const draw = tutti.draw; tutti.draw = () => { tutti.draw = draw; throw new Error('once'); }; tutti.changed()")
        WebDriverWait(self.driver, 10).until(lambda driver: self.js("return Object.hasOwn(tutti, 'draw') && !tutti.dirty"))
        self.key(Keys.ARROW_RIGHT)
        WebDriverWait(self.driver, 10).until(lambda driver: "round 1 " in self.js("return tutti.where.textContent"))

    def test_saves_a_picture(self):
        self.open("all_reduce", "-a", "ring", "-n", "8", fragment="at=15")
        svg = self.js("return tutti.svg()")
        self.assertEqual(self.js("return new DOMParser().parseFromString(arguments[0], 'image/svg+xml')"
                                 ".querySelectorAll('parsererror').length", svg), 0)
        self.assertIn(">all_reduce by ring 8 ranks<", svg)
        self.assertIn(">What each rank holds<", svg)

    def test_what_does_not_verify_is_marked(self):
        programs = json.loads(tutti("show", "all_reduce", "-a", "ring", "-n", "4", "--json"))
        steps = programs["programs"][0]["lanes"][0]["steps"]
        for name, damage in (("unmatched", lambda: steps.pop()), ("malformed", lambda: steps[2]["from"].pop())):
            damage()
            path = pathlib.Path(self.folder.name) / f"{name}.json"
            path.write_text(json.dumps(programs))
            self.open("--file", str(path))
            self.assertIn("Not verified", self.driver.find_element("css selector", ".story").text)
            self.assertIn("not verified", self.driver.find_element("css selector", ".chips").text)
            self.assertEqual(self.js("return tutti.model.length > 0"), name == "unmatched", "played as far as it goes")

    def test_a_plan_has_its_panes(self):
        path = pathlib.Path(self.folder.name) / "plan.json"
        path.write_text(tutti("plan", "--model", "llama3-8b", "--cluster", "dgx-h100:4", "--strategy", "zero3", "--json"))
        self.open("--file", str(path))
        titles = [heading.text for heading in self.driver.find_elements("css selector", ".pane h2")]
        self.assertEqual(titles, ["Gradients behind backward", "Where a step goes", "Memory of a device", "What a step says"])

    def test_pages_are_small(self):
        for arguments in (["--gallery"], ["all_reduce", "-a", "ring", "-n", "64"], ["all_to_all", "-a", "hierarchical", "-n", "64"]):
            self.assertLessEqual(self.open(*arguments).stat().st_size, MOST_BYTES, arguments)

    def test_64_ranks_play_smoothly(self):
        self.open("all_reduce", "-a", "ring", "-n", "64", fragment="speed=8&theme=light")
        rates = []
        for _ in range(3):
            self.js("tutti.seek(0); tutti.playing = true")
            self.driver.set_script_timeout(60)
            rates.append(self.driver.execute_async_script(
                "const done = arguments[0], from = tutti.drawn, began = performance.now();"
                "setTimeout(() => done((tutti.drawn - from) / (performance.now() - began) * 1000), 2000)"))
        print(f"64 ranks: {max(rates):.0f} frames a second", file=sys.stderr)
        self.assertGreaterEqual(max(rates), 30)

    def test_a_long_trace_opens_quickly(self):
        path = pathlib.Path(self.folder.name) / "run.json"
        path.write_text(long_trace(100_000))
        self.open("--file", str(path))
        opened = self.js("return tutti.openedMs")
        print(f"a trace of 100000 events: {opened:.0f} ms", file=sys.stderr)
        self.assertEqual(self.js("return tutti.model.read.boxes.length"), 100_000)
        self.assertLessEqual(opened, 3000)

    def test_calls_of_a_trace_are_measured_from_when_all_had_come(self):
        path = pathlib.Path(self.folder.name) / "late.json"
        text = long_trace(16)
        first = text.index('"began_us": 2.0')
        path.write_text(text[:first] + '"all_in_us": 15, ' + text[first:])
        self.open("--file", str(path))
        call = self.js("return tutti.model.read.calls.find(({ row, begin }) => row === 0 && begin === 0)")
        self.assertEqual((call["call"]["waited"], call["call"]["measured"]), (15, 5))
        self.assertIn("measured 5", self.js(
            "return tutti.model.read.calls.find(({ row, begin }) => row === 0 && begin === 0).words"))

    def test_many_ranks_of_a_trace_share_rows(self):
        path = pathlib.Path(self.folder.name) / "many.json"
        path.write_text(long_trace(3000, ranks=300))
        self.open("--file", str(path))
        self.assertEqual(self.js("return [tutti.model.rows, tutti.model.read.each]"), [60, 5])
        self.assertEqual(self.js("return tutti.model.detail"), "300 ranks in groups of 5")
        self.assertEqual(self.js("return tutti.model.panes.gantt.source.names.slice(0, 2)"), ["from 0", "from 5"])
        # Five calls of ranks 0 to 4; of those, only rank 4 waits for a rank of the next row.
        waits = self.js("return tutti.model.read.waits.slice(0, 1).map((row) => [...row].slice(0, 3))")[0]
        self.assertEqual(waits, [5 * (4 + 5 + 6 + 7), 5 * 8, 0])
        self.assertEqual(self.js(
            "const pane = tutti.model.panes.matrix, { cell, left, top } = pane.place(500, 400);"
            "return pane.hover(left + 1.5 * cell, top + 0.5 * cell, 500, 400)"), "ranks 0 to 4 waited 40 µs for ranks 5 to 9")
        self.assertIn("rank 4:", self.js("return tutti.model.read.boxes.find(({ rank }) => rank === 4).words"))
        self.assertIn(">from 0<", self.js("return tutti.svg()"))

    def test_a_long_pipeline_is_drawn(self):
        self.open("pipeline", "--stages", "64", "--microbatches", "512")
        self.assertIn("Activations kept", self.js("return tutti.svg()"))

    def test_pictures_of_the_docs(self):
        trace = pathlib.Path(self.folder.name) / "steps.json"
        trace.write_text(long_trace(400))
        for name, arguments, fragment in (
                ("view-ring", ["all_reduce", "-a", "ring", "-n", "8"], "at=10.45&theme=light&rank=2&block=5"),
                ("view-all-to-all", ["all_to_all", "-a", "spread_out", "-n", "16", "--topology", "dgx-h100:2"],
                 "at=6.5&theme=dark&map=cluster"),
                ("view-pipeline", ["pipeline", "--schedule", "zb-h1"], "at=8.5&theme=light&rank=1"),
                ("view-trace", ["--file", str(trace)], "at=620&theme=dark"),
                ("view-gallery", ["--gallery"], "theme=light")):
            self.open(*arguments, fragment=fragment)
            self.driver.set_window_size(1440, 900)
            shot = self.driver.get_screenshot_as_png()
            picture = PICTURES / f"{name}.png"
            if TAKE:
                PICTURES.mkdir(exist_ok=True)
                picture.write_bytes(shot)
            self.assertLess(self.difference(shot, picture.read_bytes()), SAME, f"{picture} shows something else")

    def test_pictures_of_the_docs_are_told_apart(self):
        pictures = {path.stem: path.read_bytes() for path in sorted(PICTURES.glob("view-*.png"))}
        self.assertEqual(len(pictures), 5)
        for colour in ("white", "black"):
            self.driver.get(f"data:text/html,<body style='background:{colour}'>")
            pictures[colour] = self.driver.get_screenshot_as_png()
        for one, other in itertools.combinations(pictures, 2):
            if {one, other} != {"white", "black"}:
                apart = self.difference(pictures[one], pictures[other])
                self.assertGreater(apart, 2 * SAME, f"{one} and {other}")

    def difference(self, one, other):
        """The part of two pictures that differs, seen from some way off, in small cells and however bright they are."""
        self.driver.set_script_timeout(60)
        self.driver.get("about:blank")
        return self.driver.execute_async_script("""
            const done = arguments[2], width = 144, height = 90;
            const seen = async (text) => {
              const image = new Image();
              image.src = "data:image/png;base64," + text;
              await image.decode();
              const canvas = document.createElement("canvas");
              [canvas.width, canvas.height] = [width, height];
              const context = canvas.getContext("2d");
              context.imageSmoothingQuality = "high";
              context.drawImage(image, 0, 0, width, height);
              const cells = [...context.getImageData(0, 0, width, height).data].map((value) => value / 255);
              const means = [0, 1, 2].map((colour) =>
                cells.reduce((sum, value, i) => sum + (i % 4 === colour ? value : 0), 0) / (width * height));
              return cells.map((value, i) => (i % 4 === 3 ? 0 : value - means[i % 4]));
            };
            Promise.all([seen(arguments[0]), seen(arguments[1])]).then(([a, b]) => {
              let differ = 0;
              for (let i = 0; i < a.length; i += 4)
                differ += [0, 1, 2].some((colour) => Math.abs(a[i + colour] - b[i + colour]) > 0.1) ? 1 : 0;
              done(differ / (width * height));
            });""", base64.b64encode(one).decode(), base64.b64encode(other).decode())


def long_trace(count, ranks=4):
    """A trace in the form of docs/trace.md: calls one after the other, with the waits inside of them."""
    events = []
    for number in range(count // 2):
        rank, at = number % ranks, 25.0 * (number // ranks)
        events.append({"ph": "X", "cat": "call", "name": "all_reduce", "pid": 0, "tid": rank, "ts": at, "dur": 20 + rank, "args": {
            "comm": 1, "seq": number // ranks, "bytes": 65536, "algorithm": "ring", "predicted_us": 18.5, "began_us": at + 2}})
        events.append({"ph": "X", "cat": "wait", "name": f"wait for {(rank + 1) % ranks}", "pid": 0, "tid": rank, "ts": at + 5,
                       "dur": 4 + rank, "args": {"comm": 1, "seq": number // ranks, "peer": (rank + 1) % ranks, "on": "message"}})
    facts = {"format": 1, "version": "0", "job": "1", "ranks": ranks, "rows": ["program"], "parts": []}
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ns",\n"tutti": {json.dumps(facts)},\n"traceEvents": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[argument for argument in sys.argv[3:] if argument != "--take"]], verbosity=2)
