package guestbin_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/internal/guestbin"
)

func packed(t *testing.T, text string) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bin")
	path, err := guestbin.Unpack(dir, packed(t, "one"))
	if err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o755 || read() != "one" {
		t.Fatalf("%v, %v", st, err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := guestbin.Unpack(dir, packed(t, "one"))
	if err != nil || again != path {
		t.Fatalf("%s, %v", again, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Error("an unchanged program was written again")
	}
	if err := os.WriteFile(path, []byte("on"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := guestbin.Unpack(dir, packed(t, "one")); err != nil || read() != "one" {
		t.Errorf("a torn program stays: %q, %v", read(), err)
	}
	for i := range 10 {
		if _, err := guestbin.Unpack(dir, packed(t, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%d programs are kept, %v", len(entries), err)
	}
	if _, err := guestbin.Unpack(dir, bytes.NewReader([]byte("no gzip"))); err == nil {
		t.Error("what is no gzip was unpacked")
	}
}

func TestRunnable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "guest")
	if _, err := guestbin.Runnable(path, "here lies"); err == nil {
		t.Error("nothing can be run")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := guestbin.Runnable(path, "here lies"); err == nil {
		t.Error("a text can be run")
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := guestbin.Runnable(path, "here lies"); err != nil || got != path {
		t.Errorf("%s, %v", got, err)
	}
}
