# Every target says what it does step by step, and ends with one line: PASS or FAIL with what to do.
# The work is in tools/*.sh; a target is a name for it. Variables given to make (FILE=...) reach the scripts as environment.

SHELL := bash
# rustup's own folder, for a shell that was opened before rustup was installed. First, because a system's own cargo
# would not read rust-toolchain.toml.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo dfs web web-figures web-figures-smoke clerks clerks-smoke glickr corsair mapreduce test install package chaos chaos-bugs exact hostile bench bench-smoke figures-check quatrain quatrain-smoke profiles engine verify-engine lint fuzz book

help:  ## this list
	@echo "make TARGET, where TARGET is:"
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do printf '  %-14s %s\n' "$${name// /}" "$$what"; done

demo:  ## install what is needed, build, start four distant sites, copy a file and open a mail (FILE=path: your file)
	@tools/demo.sh

glickr:  ## photos on a globe, in your browser, from twelve search engines as each of them answers: http://127.0.0.1:7490
	@tools/glickr.sh

dfs:  ## a file server of DIR=path and its clerk, an NFSv3 server on loopback; nothing is called that can be read
	@tools/clerks.sh serve "$(DIR)"

web:  ## a web server of DIR=path without sockets, and a door to it for your browser: http://127.0.0.1:7780 (SERVER=jetty)
	@tools/web.sh serve "$(DIR)" $(SERVER)

test:  ## install what is needed, build, run every test and check
	@tools/test.sh

chaos:  ## 200,000 chains over real nodes that are killed, stopped, cut off: target/chaos/result.json (ARGS="--parts 1")
	@tools/chaos.sh $(ARGS)

chaos-bugs:  ## the same chains over nodes with one bug of the protocol at a time: which are found? target/chaos/bugs.txt (ARGS="--chains 400")
	@tools/chaos.sh bugs $(ARGS)

exact:  ## 10,000,000 calls with drawn trees of threads, tasks and delegations: target/exact/result.json (CALLS=100000)
	@tools/exact.sh $(CALLS)

hostile:  ## how long chains take beside each attack of the tests: target/hostile/result.json
	@tools/hostile.sh

install:  ## build the catena command as it is shipped, and install it (PREFIX=~/.local)
	@tools/install.sh

package:  ## what is shipped as one archive: the command, the C interface, its header: target/package
	@tools/package.sh

bench:  ## the figures of what is shipped, side by side with peers: target/bench/summary.json
	@tools/bench.sh

bench-smoke:  ## a little of everything, to see that the benchmark works: no figures
	@tools/bench.sh smoke

figures-check:  ## the figures three times: which moved by more than their spread?
	@tools/bench.sh check

corsair:  ## phone numbers from ten sites as they are found, beside parallel calls (ARGS=mariadb: real servers)
	@tools/application.sh corsair $(ARGS)

mapreduce:  ## word count whose reduces work while the maps map; four processes, three modes
	@tools/application.sh mapreduce

quatrain:  ## the figures of the Quatrain paper's applications beside ours: target/quatrain/summary.json
	@tools/quatrain.sh

quatrain-smoke:  ## a little of everything, to see that these work: no figures
	@tools/quatrain.sh smoke

clerks:  ## the figures of both data papers, file service and web server, beside ours: target/clerks/summary.json (ARGS="--gib-max 625")
	@tools/clerks.sh figures $(ARGS)

clerks-smoke:  ## a little of everything, to see that these work: no figures
	@tools/clerks.sh smoke

web-figures:  ## of these the web server's alone: target/web/summary.json (ARGS="--gib-max 625")
	@tools/web.sh figures target/web $(ARGS)

web-figures-smoke:  ## a little of everything, to see that these work: no figures
	@tools/web.sh smoke target/web/smoke

profiles:  ## what each part of the profile for shipping brings alone: target/bench/profiles.txt
	@tools/profiles.sh

engine:  ## build the guests alone: target/guests/*.wasm
	@tools/engine.sh guests

verify-engine:  ## build the engine twice from scratch, and compare the hashes
	@tools/engine.sh verify-engine

lint:  ## formatting, lints and dependencies, without the tests
	@tools/lint.sh

book:  ## the documentation as pages for a browser: target/book/index.html
	@tools/book.sh

fuzz:  ## every fuzz target for a short while (FUZZ_SECONDS=20 each), on nightly
	@tools/fuzz.sh
