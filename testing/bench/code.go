package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// worth is code that computes for some tens of milliseconds, as code that is worth a call does. Both ends of the comparison print one line.
const worth = "print(sum(i * i for i in range(500000)))"

// codeTrips measures code in a kernel beside the same line in a bare `python3 -i` on a pipe: the kernel's own program, and the server's API
// with the store, the guest and the sandbox between.
func (b *bench) codeTrips(h *harness) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		fmt.Println("  run_code: not measured, python3 is not installed")
		return nil
	}
	bare, err := pipeTo(exec.Command(python, "-i", "-q"))
	if err != nil {
		return err
	}
	defer bare.stop()
	kernel, err := pipeTo(exec.Command(filepath.Join(filepath.Dir(b.binary), "parawork-guest"), "kernel", "python"))
	if err != nil {
		return err
	}
	defer kernel.stop()
	if line, err := kernel.out.ReadString('\n'); err != nil || !strings.Contains(line, `"ready"`) {
		return fmt.Errorf("the kernel says %q: %w", line, err)
	}
	inBare := func(code string) error { return bare.line(code+"\n", "") }
	inKernel := func(code string) error {
		return kernel.line(fmt.Sprintf(`{"id":"run","code":%q}`+"\n", code), `"done"`)
	}
	byAPI := func(code string) error {
		var r struct{ State, Stdout string }
		err := h.do("POST", "/workspaces/"+h.workspace+"/code", map[string]any{"language": "python", "code": code}, &r)
		if err == nil && (r.State != "ok" || r.Stdout == "") {
			err = fmt.Errorf("the run: %+v", r)
		}
		return err
	}
	for _, c := range []struct {
		name, code string
		most       float64 // of the ratio; 0: a fixed cost is allowed instead
	}{{"print(1)", "print(1)", 0}, {"code of some 10 ms", worth, 1.5}} {
		for _, layer := range []struct {
			name  string
			run   func(string) error
			extra float64 // us
		}{{"kernel alone", inKernel, 1000}, {"API", byAPI, 10_000}} {
			base, took, err := mediansRun(b.size(100, 20), c.code, inBare, layer.run)
			if err != nil {
				return err
			}
			target, ok := fmt.Sprintf("+ %.0f us", layer.extra), took-base < layer.extra
			if c.most > 0 {
				target, ok = fmt.Sprintf("<= %.1f", c.most), took/base <= c.most
			}
			b.figure(fmt.Sprintf("run_code, %s, %s, p50, us", c.name, layer.name), f1(took), f1(base), took/base, target, ok)
		}
	}
	return nil
}

// line writes a line and reads until one that has a text.
func (p *piped) line(text, until string) error {
	if _, err := p.in.Write([]byte(text)); err != nil {
		return err
	}
	for {
		if got, err := p.out.ReadString('\n'); err != nil || strings.Contains(got, until) {
			return err
		}
	}
}

// mediansRun runs code in two ways by turns, so that both have the same machine, and returns the medians, us.
func mediansRun(n int, code string, ways ...func(code string) error) (first, second float64, err error) {
	took := make([][]float64, 2)
	for i := range n + 5 { // the first ones fill caches
		for w, run := range ways {
			t0 := time.Now()
			if err := run(code); err != nil {
				return 0, 0, err
			}
			if i >= 5 {
				took[w] = append(took[w], us(time.Since(t0)))
			}
		}
	}
	return median(took[0]), median(took[1]), nil
}
