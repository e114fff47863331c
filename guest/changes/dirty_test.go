package changes

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/fault"
)

// Names alone are right from the first look on, also when HEAD moves between two of them.
func TestNamesFollowTheHead(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	if got := tr.named(p); len(got) != 0 {
		t.Fatalf("nothing differs, and named are %v", got)
	}
	tr.write("src/lib.go", "one\n")
	tr.git("commit", "-qam", "one")
	tr.write("new", "x\n")
	if got := tr.named(p); len(got) != 2 || !got["src/lib.go"] || !got["new"] {
		t.Fatalf("after a commit: %v", got)
	}
	tr.git("mv", "README.md", "TOLD.md")
	tr.git("commit", "-qm", "two")
	if got := tr.named(p); len(got) != 4 || !got["README.md"] || !got["TOLD.md"] {
		t.Fatalf("after another: %v", got)
	}
	tr.git("reset", "-q", "--hard", tr.base)
	if got := tr.named(p); len(got) != 1 || !got["new"] {
		t.Fatalf("back at the base: %v", got)
	}
}

// Where git cannot list new files, names alone would make them unchanged: who asks is sent to the whole look.
func TestNamesAreNotHalf(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tr.write("new", "x\n")
	tr.remove(".gitignore")
	if err := syscall.Mkfifo(tr.path(".gitignore"), 0o644); err != nil {
		t.Fatal(err)
	}
	if d, err := p.Dirty(t.Context(), tr.base); !fault.Is(err, fault.Unsupported) || fault.CodeOf(err) != "changes_incomplete" {
		t.Fatalf("named are %v, %v", d.Paths, err)
	}
	if _, err := p.Dirty(t.Context(), "main"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a base that is no commit: %v", err)
	}
}

// A list that does not fit one answer is unsupported.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]string, dirtyPaths+1)
	for i := range many {
		many[i] = fmt.Sprintf("f%05d", i)
	}
	if _, err := namesOf("b", many); !fault.Is(err, fault.Unsupported) {
		t.Errorf("too many: %v", err)
	}
	if d, err := namesOf("b", append(many[:10:10], many[:10]...)); err != nil || len(d.Paths) != 10 {
		t.Errorf("%d names, %v", len(d.Paths), err)
	}
	if _, err := namesOf("b", []string{"a/../b"}); !fault.Is(err, fault.Unsupported) {
		t.Errorf("what is no file: %v", err)
	}
}
