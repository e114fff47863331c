//go:build linux

package local_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/parawork/parawork/executors"
)

// A server that can open no file cannot tell whether a sandbox is there: it says so, and neither calls it gone nor ends it. It is not
// parallel: the limit is the whole process's.
func TestTooManyOpenFilesEndNoSandbox(t *testing.T) {
	e := newExecutor(t, t.TempDir())
	sb := create(t, e, spec(t))
	c := dial(t, sb)
	p := start(t, c, "sleep 1000")
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := e.Recover(t.Context(), sb.Handle())
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err == nil || errors.Is(err, executors.ErrGone) {
		t.Errorf("Recover without files: %v", err)
	}
	again, err := e.Recover(t.Context(), sb.Handle())
	if err != nil {
		t.Fatalf("Recover with files again: %v", err)
	}
	if now, err := dial(t, again).Process(t.Context(), p.ID); err != nil || now.State != "running" {
		t.Errorf("its process is %+v, %v", now, err)
	}
}
