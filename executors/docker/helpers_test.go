//go:build linux

package docker_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/id"
)

// run runs a shell line in a sandbox to its end and returns what it printed on both outputs.
func run(t *testing.T, sb executors.Sandbox, line string) string {
	t.Helper()
	out, _ := outcome(t, sb, line)
	return out
}

// outcome is run, with how the line ended.
func outcome(t *testing.T, sb executors.Sandbox, line string) (string, guest.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := dial(t, sb)
	p, err := c.Start(ctx, guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", "exec 2>&1; " + line}})
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	out, err := c.Output(ctx, p.ID, guest.Stdout, 0)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	defer out.Close()
	b, err := io.ReadAll(out)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	end, err := c.Wait(ctx, p.ID)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return string(b), end
}
