// Command bench measures Parawork against baselines taken in the same run on the same machine, and prints ratios: a plain
// one-process bridge from a PTY to gorilla/websocket, and the bare tools (git). Absolute figures depend on the machine; the
// ratios are what counts. `make bench` builds and runs it; -only picks parts, -quick shrinks them.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/testing/bench/places"
)

// part is one group of figures.
type part struct {
	name string
	run  func(*bench) error
}

var parts = []part{
	{"output", (*bench).output},
	{"echo", (*bench).echo},
	{"fanout", (*bench).fanout},
	{"screens", (*bench).screens},
	{"worktree", (*bench).worktree},
	{"poll", (*bench).poll},
	{"snapshots", (*bench).snapshots},
	{"compare", (*bench).compare},
	{"overlap", (*bench).overlap},
	{"diff", (*bench).diff},
	{"scroll", (*bench).scroll},
	{"history", (*bench).history},
	{"gate", (*bench).gate},
	{"memory", (*bench).memory},
	{"boxes", (*bench).boxes},
	{"neighbour", (*bench).neighbour},
	{"docker", (*bench).docker},
	{"e2b", (*bench).cloud},
	{"places", (*bench).places},
	{"runner", (*bench).runner},
	{"identity", (*bench).identity},
	{"webhook", (*bench).webhook},
	{"ledger", (*bench).ledger},
	{"lists", (*bench).lists},
	{"gateway", (*bench).models},
	{"tools", (*bench).tools},
	{"browser", (*bench).live},
	{"languages", (*bench).languages},
	{"agent", (*bench).agent},
}

func main() {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := children[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
			os.Exit(1)
		}
		return
	}
	only := flag.String("only", "", "comma-separated parts: output,echo,fanout,screens,worktree,poll,snapshots,compare,overlap,diff,scroll,history,gate,memory,boxes,neighbour,docker,e2b,places,runner,identity,webhook,ledger,lists,gateway,tools,browser,languages,agent")
	quick := flag.Bool("quick", false, "small sizes, to see that everything runs")
	binary := flag.String("binary", "bin/parawork", "the server binary")
	machine := flag.String("machine", "bin/parawork-runner", "the program of a member's own machine")
	flag.Parse()
	if err := run(*binary, *machine, *only, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(binary, machine, only string, quick bool) error {
	abs, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	if machine, err = filepath.Abs(machine); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the bench binary: %w", err)
	}
	dir, err := os.MkdirTemp("", "parawork-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{binary: abs, machine: machine, self: self, dir: dir, quick: quick}
	defer b.close()
	failed := 0
	for _, p := range parts {
		if only != "" && !strings.Contains(","+only+",", ","+p.name+",") {
			continue
		}
		fmt.Printf("\n%s\n", p.name)
		if err := p.run(b); err != nil {
			failed++
			fmt.Printf("  FAILED: %v\n", err)
		}
	}
	if b.missed > 0 {
		fmt.Printf("\n%d figure(s) outside their target\n", b.missed)
	}
	if failed > 0 {
		return fmt.Errorf("%d part(s) failed", failed)
	}
	return nil
}

// places has PARAWORK_BENCH_PLACE measure one of them.
func (b *bench) places() error {
	return places.Run(places.Config{Dir: filepath.Join(b.dir, "places"), Guest: filepath.Join(filepath.Dir(b.binary), "parawork-guest"), Only: os.Getenv("PARAWORK_BENCH_PLACE"),
		Quick: b.quick, Figure: b.figure})
}

// bench holds what the parts share.
type bench struct {
	binary, machine, self, dir string
	quick                      bool
	missed                     int
	h                          *harness
}

func (b *bench) size(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

// figure prints one ratio with its target.
func (b *bench) figure(name, ours, base string, ratio float64, target string, ok bool) {
	mark := "ok"
	if !ok {
		mark, b.missed = "MISSED", b.missed+1
	}
	fmt.Printf("  %-44s %14s  baseline %14s  ratio %6.2f  target %-10s %s\n", name, ours, base, ratio, target, mark)
}
