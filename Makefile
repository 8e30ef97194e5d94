# Everything runs in .venv; `./kb test` or `./kb up` makes it.
BIN ?= .venv/bin
TEMPLATES = $(shell find templates -name '*.html')

.PHONY: lint test bench lock

lint:
	$(BIN)/ruff check . kb
	$(BIN)/ruff format --check . kb
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/djlint templates --check --lint --quiet
	$(BIN)/djade --check --target-version 5.2 $(TEMPLATES)
	$(BIN)/python manage.py check
	$(BIN)/python -W "ignore:Got an error checking:RuntimeWarning" manage.py makemigrations --check --dry-run

test:
	./kb test

bench:
	$(BIN)/python -m bench

# The serve lock takes its versions from requirements.txt, so that both name the same ones.
lock:
	$(BIN)/uv pip compile requirements-serve.in --constraint requirements.txt --python-version 3.11 \
		--generate-hashes --no-build --no-header --no-annotate --quiet --output-file requirements-serve.lock
