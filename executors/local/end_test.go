//go:build linux

package local_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
)

// A guest that hangs cannot keep its sandbox alive.
func TestEndDoesNotWaitForTheGuest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	sb := create(t, e, spec(t))
	var who hostproc.Identity
	if err := hostproc.ReadRecord(filepath.Join(dir, "sandboxes", sb.Handle().ID), &who); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(who.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 2 { // idempotent
		if err := e.End(t.Context(), sb.Handle().ID); err != nil {
			t.Fatal(err)
		}
	}
	if who.Alive() {
		t.Error("the guest lives on")
	}
	if _, err := e.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) {
		t.Errorf("found again: %v", err)
	}
	if err := e.End(t.Context(), "../x"); err == nil {
		t.Error("an id that is a path was taken")
	}
}
