package git

import (
	"bytes"
	"container/list"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// CompareOptions are how two trees are compared.
type CompareOptions struct {
	IgnoreSpace bool // ignore lines that differ only in white space
	Renames     bool // a file that moved is one change, not two
}

// ChangedFile is one file in which two trees differ. Paths are raw bytes.
type ChangedFile struct {
	Path, OldPath        string // OldPath only if renamed
	Status               string // added, modified, deleted, renamed, type_changed
	Mode, OldMode        string // git's octal; "" = no file
	OldBlob, NewBlob     string // "" = no file
	Additions, Deletions int
	Size                 int64 // of the new file; of the old one if deleted
	Binary               bool
	Generated            string // why reviewers may skip it: generated, lock; "" = written by people
}

// Mark identifies the two contents of a file's change: it changes when either does.
func (f ChangedFile) Mark() string { return f.OldBlob + ".." + f.NewBlob + f.Mode }

// HugeLines is how many changed lines a file may have before it is folded.
const HugeLines = 800

// Folded is the reason why a reader sees the change folded at first: "", deleted, binary, generated, lock, huge.
func (f ChangedFile) Folded() string {
	switch {
	case f.Status == "deleted":
		return "deleted"
	case f.Binary:
		return "binary"
	case f.Generated != "":
		return f.Generated
	case f.Additions+f.Deletions > HugeLines:
		return "huge"
	}
	return ""
}

// Comparison is two trees and their differences. Files are sorted by the bytes of their paths.
type Comparison struct {
	Files                []ChangedFile
	Additions, Deletions int
	Truncated            bool // more than MaxCompared files differ: the rest is left out
}

// MaxCompared is how many files one comparison lists.
const MaxCompared = 20_000

// compared caches the last comparisons. Trees never change, so they stay valid.
type compared struct {
	mu    *sync.Mutex
	order *list.List // of comparedKey, the newest first
	items map[comparedKey]comparedItem
	files int
}

type comparedKey struct {
	gitDir, from, to string
	o                CompareOptions
}

type comparedItem struct {
	c  Comparison
	at *list.Element
}

// comparedFiles is how many files all cached comparisons may have together.
const comparedFiles = 100_000

func newCompared() compared {
	return compared{mu: new(sync.Mutex), order: list.New(), items: make(map[comparedKey]comparedItem)}
}

func (c *compared) get(k comparedKey) (Comparison, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, ok := c.items[k]
	if ok {
		c.order.MoveToFront(it.at)
	}
	return it.c, ok
}

func (c *compared) put(k comparedKey, v Comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.items[k]; ok {
		return
	}
	c.items[k] = comparedItem{v, c.order.PushFront(k)}
	c.files += len(v.Files) + 1
	for c.files > comparedFiles && c.order.Len() > 1 {
		last := c.order.Back()
		old := c.order.Remove(last).(comparedKey)
		c.files -= len(c.items[old].c.Files) + 1
		delete(c.items, old)
	}
}

// Compare returns the files in which two trees of a workspace differ. The result is shared: callers must not change it.
func (s *Repo) Compare(ctx context.Context, workspaceID string, from, to Tree, o CompareOptions) (Comparison, error) {
	p, err := s.ProjectOf(ctx, workspaceID)
	if err != nil {
		return Comparison{}, err
	}
	if !IsCommitID(from.Tree) || !IsCommitID(to.Tree) {
		return Comparison{}, fault.New(fault.Invalid, "invalid_revision", "Both sides of a comparison must be known.")
	}
	k := comparedKey{p.GitDir, from.Tree, to.Tree, o}
	if c, ok := s.comparisons.get(k); ok {
		return c, nil
	}
	c := Comparison{Files: []ChangedFile{}}
	if from.Tree != to.Tree {
		scratch, err := s.ScratchOf(ctx, p)
		if err != nil {
			return Comparison{}, err
		}
		defer func() { _ = scratch.Close() }()
		if c, err = compareOn(ctx, scratch, from.Tree, to.Tree, o); err != nil {
			return Comparison{}, err
		}
		if err := sizes(ctx, scratch, c.Files); err != nil {
			return Comparison{}, err
		}
		if err := markGenerated(ctx, scratch, from.Tree, to.Tree, c.Files); err != nil {
			return Comparison{}, err
		}
	}
	s.comparisons.put(k, c)
	return c, nil
}

// DiffArgs are the arguments of every comparison. They run in a scratch repository, so no attributes, drivers or filters of the project
// apply.
func DiffArgs(o CompareOptions, more ...string) []string {
	args := []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none", "--diff-algorithm=histogram"}
	if o.Renames {
		args = append(args, "-M", "-l1000")
	} else {
		args = append(args, "--no-renames")
	}
	if o.IgnoreSpace {
		args = append(args, "-w")
	}
	return append(args, more...)
}

func compareOn(ctx context.Context, scratch *hostgit.Scratch, from, to string, o CompareOptions) (Comparison, error) {
	c := Comparison{Files: []ChangedFile{}}
	out, err := scratch.Run(ctx, hostgit.Call{Max: 256 << 20, Args: DiffArgs(o, "-z", "--raw", "--numstat", "--no-abbrev", from, to)})
	if err != nil {
		return c, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing two trees")
	}
	raw, stats := splitStat(string(out))
	for _, r := range ParseRaw(raw) {
		f := ChangedFile{Path: r.Path, OldPath: r.from, Mode: r.NewMode, OldMode: r.OldMode, OldBlob: r.OldOID, NewBlob: r.NewOID}
		switch r.Status[0] {
		case 'A':
			f.Status, f.OldMode, f.OldBlob = "added", "", ""
		case 'D':
			f.Status, f.Mode, f.NewBlob = "deleted", "", ""
		case 'R':
			f.Status = "renamed"
		case 'T':
			f.Status = "type_changed"
		default:
			f.Status = "modified"
		}
		n, counted := stats[r.Path]
		f.Additions, f.Deletions, f.Binary = n.added, n.deleted, n.binary
		if o.IgnoreSpace && !counted && f.Status == "modified" && f.Mode == f.OldMode {
			continue // only its white space differs
		}
		c.Files = append(c.Files, f)
	}
	slices.SortFunc(c.Files, func(a, b ChangedFile) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range c.Files {
		c.Additions += f.Additions
		c.Deletions += f.Deletions
	}
	if len(c.Files) > MaxCompared {
		c.Files, c.Truncated = c.Files[:MaxCompared:MaxCompared], true
	}
	return c, nil
}

type lineStat struct {
	added, deleted int
	binary         bool
}

// splitStat parses the output of diff-tree -z --raw --numstat: all raw records, then all counts by new path.
func splitStat(out string) (raw string, stats map[string]lineStat) {
	stats = make(map[string]lineStat)
	at := 0
	for at < len(out) && out[at] == ':' {
		fields := 2 // the record, its path
		if end := strings.IndexByte(out[at:], 0); end > 0 {
			meta := out[at : at+end]
			if i := strings.LastIndexByte(meta, ' '); i >= 0 && i+1 < len(meta) && (meta[i+1] == 'R' || meta[i+1] == 'C') {
				fields = 3
			}
		}
		for ; fields > 0; fields-- {
			end := strings.IndexByte(out[at:], 0)
			if end < 0 {
				return out, stats
			}
			at += end + 1
		}
	}
	raw = out[:at]
	f := strings.Split(out[at:], "\x00")
	for len(f) > 0 {
		n := strings.SplitN(f[0], "\t", 3)
		f = f[1:]
		if len(n) != 3 {
			continue
		}
		name := n[2]
		if name == "" { // renamed: the two names follow
			if len(f) < 2 {
				break
			}
			name, f = f[1], f[2:]
		}
		st := lineStat{binary: n[0] == "-"}
		st.added, _ = strconv.Atoi(n[0])
		st.deleted, _ = strconv.Atoi(n[1])
		stats[name] = st
	}
	return raw, stats
}

// sizes looks up the files' sizes.
func sizes(ctx context.Context, scratch *hostgit.Scratch, files []ChangedFile) error {
	var ask bytes.Buffer
	var of []int
	for i, f := range files {
		blob, mode := f.NewBlob, f.Mode
		if blob == "" {
			blob, mode = f.OldBlob, f.OldMode
		}
		if blob != "" && mode != "160000" {
			ask.WriteString(blob + "\n")
			of = append(of, i)
		}
	}
	if len(of) == 0 {
		return nil
	}
	out, err := scratch.Run(ctx, hostgit.Call{Args: []string{"cat-file", "--batch-check=%(objectsize)", "--buffer"}, Stdin: &ask})
	if err != nil {
		return GitFault(err, fault.Unavailable, "repository_unreadable", "Asking for files' sizes")
	}
	for i, l := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if i < len(of) {
			files[of[i]].Size, _ = strconv.ParseInt(l, 10, 64)
		}
	}
	return nil
}

// Tree is the files of a workspace at one time.
type Tree struct {
	Rev        string // as requested
	Commit     string
	Tree       string
	SnapshotID string // "" = a commit of the branch's history
	Owner      string // the workspace whose snapshot it is, "" = none's
	At         int64  // ms UTC
	Label      string // for people
}
