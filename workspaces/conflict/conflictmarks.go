package conflict

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// maxMarks is how many lines with conflict markers are listed per file.
const maxMarks = 50

// markPattern matches a line with which git starts or ends a conflict. In renamed files the markers are longer.
const markPattern = "^(<{7,12}|>{7,12}) "

// findMarks fills in the lines at which conflict markers are left: in the folder for open files, in the index for resolved ones. A
// marker-like line that a side itself has does not count.
func findMarks(ctx context.Context, b *sandboxgit.Sandbox, list []OpenConflict) error {
	var open, staged []string
	for _, c := range list {
		switch {
		case !c.Decided && c.text():
			open = append(open, c.paths...)
		case c.Decided:
			staged = append(staged, c.touched()...)
		}
	}
	found, err := marks(ctx, b, open)
	if err != nil {
		return err
	}
	in, err := marks(ctx, b, staged, "--cached")
	if err != nil {
		return err
	}
	again := make([]string, 0, len(in)) // staged with markers: the folder counts, and is staged again
	for name := range in {
		again = append(again, name)
	}
	now, err := marks(ctx, b, again)
	if err != nil {
		return err
	}
	for i := range list {
		c := &list[i]
		lines := found
		if c.Decided {
			lines = now
		}
		for _, name := range c.touched() {
			if c.Decided && len(in[name]) > 0 {
				c.restage = append(c.restage, name)
			}
			if len(lines[name]) == 0 {
				continue
			}
			own, err := ownMarks(ctx, b, c, name)
			if err != nil {
				return err
			}
			for _, m := range lines[name] {
				if !own[m.text] && len(c.Marks) < maxMarks {
					c.Marks = append(c.Marks, m.line)
				}
			}
		}
	}
	return nil
}

// mark is a line of a file.
type mark struct {
	line int
	text string
}

// marks finds the lines of files that start with a conflict marker.
func marks(ctx context.Context, b *sandboxgit.Sandbox, files []string, where ...string) (map[string][]mark, error) {
	out := make(map[string][]mark)
	for some := range slices.Chunk(files, 200) { // as arguments: grep reads no list
		args := append([]string{"grep", "--line-number", "-z", "-I", "-E", "--full-name", "--no-color"}, where...)
		said, err := b.Git(ctx, nil, append(append(args, "-e", markPattern, "--"), some...)...)
		if err != nil && git.ExitCode(err) != 1 {
			return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the files in conflict")
		}
		for line := range strings.Lines(said) {
			f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\x00", 3)
			if len(f) != 3 {
				continue
			}
			if n, err := strconv.Atoi(f[1]); err == nil {
				out[f[0]] = append(out[f[0]], mark{n, strings.TrimSuffix(f[2], "\r")})
			}
		}
	}
	return out, nil
}

// ownMarks are marker-like lines that a file had before the conflict. Where both sides renamed a file, git's merged content has its markers
// in the stages.
func ownMarks(ctx context.Context, b *sandboxgit.Sandbox, c *OpenConflict, name string) (map[string]bool, error) {
	own := make(map[string]bool)
	if c.Kind == ConflictRenames {
		return own, nil
	}
	for _, st := range c.stages {
		for _, e := range st {
			if !e.Plain() {
				continue
			}
			said, err := b.Git(ctx, nil, "grep", "-h", "-I", "-E", "--no-color", "-e", markPattern, e.OID)
			if err != nil && git.ExitCode(err) != 1 {
				return nil, git.SandboxFault(err, "worktree_unreadable", "Reading a side of "+name)
			}
			for line := range strings.Lines(said) {
				own[strings.TrimRight(line, "\r\n")] = true
			}
		}
	}
	return own, nil
}

// MarkedFile is a file in which conflict markers are left.
type MarkedFile struct {
	Path  string `json:"path"` // in wire form
	Lines []int  `json:"lines"`
}

// markedWords lists lines for people.
func markedWords(list []MarkedFile) string {
	var names []string
	for i, m := range list {
		if i == 5 {
			names = append(names, git.Plural(len(list)-i, "more file", "more files"))
			break
		}
		var lines []string
		for k, n := range m.Lines {
			if k == 6 {
				lines = append(lines, "…")
				break
			}
			lines = append(lines, strconv.Itoa(n))
		}
		word := "line "
		if len(m.Lines) > 1 {
			word = "lines "
		}
		names = append(names, strconv.Quote(guest.DecodePath(m.Path))+" in "+word+strings.Join(lines, ", "))
	}
	return strings.Join(names, "; ")
}
