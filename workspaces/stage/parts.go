package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// Bounds of one request.
const maxParts = 2_000

// Bounds of one request.
const maxHunks = 5_000

// Hunk is a run of lines of the older and of the newer state, as in a hunk header of a unified diff: without lines, the start is the line
// before.
type Hunk struct {
	OldStart, OldLines int
	NewStart, NewLines int
	Hash               string // hash from Hunks; "" = not checked
}

// Part is a file, or a part of one.
type Part struct {
	Path  string // raw
	Hunks []Hunk // if Old and New are empty too: the whole file
	// Old and New are lines of the older and the newer state, counted from 1: only these of the hunks.
	Old, New []int
}

func (p Part) whole() bool { return len(p.Hunks) == 0 && len(p.Old) == 0 && len(p.New) == 0 }

// Parts are parts of what differs between two states.
type Parts struct {
	From string // a revision, or "index"; "" = the operation's default
	To   string // a revision, or "index"; "" = the current files, whatever they are
	List []Part
}

// HunkLines is a hunk with its lines.
type HunkLines struct {
	Hunk
	Removed, Added []string // with their line feeds
}

// FileHunks is the diff of a file.
type FileHunks struct {
	Path         string
	From, To     string // the commits of the two states; "" = the index
	Binary       bool   // or too large: only available as a whole
	Hunks        []HunkLines
	OldOID       string // git object ids of the content; "" = no file
	NewOID       string
	Mode, OldMod string
}

// Files reads and writes files of worktrees, wherever they are. Paths are in wire form. *filesync.Service implements it.
type Files interface {
	Stat(ctx context.Context, workspaceID, path string) (guest.FileInfo, error)
	Read(ctx context.Context, workspaceID, path string) (io.ReadCloser, guest.FileInfo, error)
	// Put writes a file whose present bytes have this sha256; "" = there must be none yet.
	Put(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string, mode uint32) (guest.FileInfo, error)
	RemoveIf(ctx context.Context, workspaceID, path, ifMatch string) error
}

// ConnectFiles sets the Files, which need workspaces themselves. It is called once, before Run.
func (s *Service) ConnectFiles(f Files) { s.files.Store(&f) }

// FileWriter returns the Files.
func (s *Service) FileWriter() (Files, error) {
	files := s.files.Load()
	if files == nil {
		return nil, fault.New(fault.Unavailable, "starting", "The server is still starting. Try again in a moment.")
	}
	return *files, nil
}

func (r Parts) check() error {
	if len(r.List) == 0 {
		return fault.New(fault.Invalid, "nothing_chosen", "No file was chosen.").With("field", "parts")
	}
	if len(r.List) > maxParts {
		return fault.New(fault.TooLarge, "too_many_parts", "More than %d files at once: take fewer, or commit everything.", maxParts)
	}
	seen := make(map[string]bool, len(r.List))
	for _, p := range r.List {
		if err := sandboxgit.CheckPath(p.Path); err != nil {
			return err
		}
		if strings.HasSuffix(p.Path, "/") || seen[p.Path] {
			return fault.New(fault.Invalid, "path_invalid", "%q is listed twice, or is not a file.", p.Path)
		}
		seen[p.Path] = true
		if len(p.Hunks) > maxHunks || len(p.Old)+len(p.New) > 200_000 {
			return fault.New(fault.TooLarge, "too_many_parts", "More hunks of %q than can be taken at once: take the whole file.", p.Path)
		}
	}
	return nil
}

// paths are the files the parts are of.
func (r Parts) paths() []string {
	out := make([]string, len(r.List))
	for i, p := range r.List {
		out[i] = p.Path
	}
	return out
}

// pick is a difference of which all or some lines were chosen.
type pick struct {
	git.LineBlock
	old, new []bool // the chosen lines; nil = all
}

func movedFault(path string) error {
	return fault.New(fault.Conflict, "part_moved",
		"%q has changed since you saw it: these lines are no longer as they were shown. Refresh, and choose again.", path).With("path", guest.EncodePath(path))
}

// picks finds the chosen differences between two texts.
func (p Part) picks(old, now []string) ([]pick, error) {
	var blocks []git.LineBlock
	if len(p.Hunks) == 0 {
		blocks = git.DiffLines(old, now)
	}
	a, b := 0, 0
	for _, h := range p.Hunks {
		r, ok := h.in(len(old), len(now))
		if !ok || r.A0 < a || r.B0 < b {
			return nil, fault.New(fault.Invalid, "hunk_invalid", "%q has no such lines, or its hunks are not in order.", p.Path).With("path", guest.EncodePath(p.Path))
		}
		a, b = r.A1, r.B1
		if h.Hash != "" && h.Hash != hunkHash(h, old[r.A0:r.A1], now[r.B0:r.B1]) {
			return nil, movedFault(p.Path)
		}
		for _, d := range git.DiffLines(old[r.A0:r.A1], now[r.B0:r.B1]) {
			blocks = append(blocks, git.LineBlock{A0: d.A0 + r.A0, A1: d.A1 + r.A0, B0: d.B0 + r.B0, B1: d.B1 + r.B0})
		}
	}
	var out []pick
	if len(p.Old) == 0 && len(p.New) == 0 {
		for _, x := range blocks {
			out = append(out, pick{LineBlock: x})
		}
	} else {
		out = p.chosen(blocks)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Conflict, "part_empty", "Nothing differs in the chosen lines of %q.", p.Path).With("path", guest.EncodePath(p.Path))
	}
	return out, nil
}

// chosen returns the parts of the blocks that the chosen lines cover. If a block removes as many lines as it adds, they correspond one to
// one.
func (p Part) chosen(blocks []git.LineBlock) []pick {
	oldSet, newSet := make(map[int]bool), make(map[int]bool)
	for _, n := range p.Old {
		oldSet[n-1] = true
	}
	for _, n := range p.New {
		newSet[n-1] = true
	}
	var single []git.LineBlock
	for _, x := range blocks {
		if x.A1-x.A0 != x.B1-x.B0 {
			single = append(single, x)
			continue
		}
		for i := range x.A1 - x.A0 {
			single = append(single, git.LineBlock{A0: x.A0 + i, A1: x.A0 + i + 1, B0: x.B0 + i, B1: x.B0 + i + 1})
		}
	}
	var out []pick
	for _, x := range single {
		k := pick{LineBlock: x, old: make([]bool, x.A1-x.A0), new: make([]bool, x.B1-x.B0)}
		any, all := false, true
		for i := range k.old {
			k.old[i] = oldSet[x.A0+i]
			any, all = any || k.old[i], all && k.old[i]
		}
		for i := range k.new {
			k.new[i] = newSet[x.B0+i]
			any, all = any || k.new[i], all && k.new[i]
		}
		if all {
			k.old, k.new = nil, nil
		}
		if any {
			out = append(out, k)
		}
	}
	return out
}

// in converts line numbers of a hunk header to ones that count from 0.
func (h Hunk) in(old, now int) (git.LineBlock, bool) {
	b := git.LineBlock{A0: h.OldStart, A1: h.OldStart + h.OldLines, B0: h.NewStart, B1: h.NewStart + h.NewLines}
	if h.OldLines > 0 {
		b.A0, b.A1 = b.A0-1, b.A1-1
	}
	if h.NewLines > 0 {
		b.B0, b.B1 = b.B0-1, b.B1-1
	}
	return b, h.OldLines >= 0 && h.NewLines >= 0 && h.OldLines+h.NewLines > 0 && b.A0 >= 0 && b.B0 >= 0 && b.A1 <= old && b.B1 <= now && b.A1 >= 0 && b.B1 >= 0
}

// hunkOf is the inverse of in.
func hunkOf(b git.LineBlock) Hunk {
	h := Hunk{OldStart: b.A0 + 1, OldLines: b.A1 - b.A0, NewStart: b.B0 + 1, NewLines: b.B1 - b.B0}
	if h.OldLines == 0 {
		h.OldStart--
	}
	if h.NewLines == 0 {
		h.NewStart--
	}
	return h
}

// hunkHash identifies a hunk by its position and content.
func hunkHash(h Hunk, old, now []string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
	for _, l := range old {
		fmt.Fprintf(sum, "-%d %s", len(l), l)
	}
	for _, l := range now {
		fmt.Fprintf(sum, "+%d %s", len(l), l)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// forward is the text that replaces the old lines when the pick is applied.
func (k pick) forward(old, now []string) []string {
	var out []string
	for i, l := range old[k.A0:k.A1] {
		if k.old != nil && !k.old[i] {
			out = append(out, l)
		}
	}
	for i, l := range now[k.B0:k.B1] {
		if k.new == nil || k.new[i] {
			out = append(out, l)
		}
	}
	return out
}

// backward is the text that replaces the new lines when the pick is reverted.
func (k pick) backward(old, now []string) []string {
	var out []string
	for i, l := range old[k.A0:k.A1] {
		if k.old == nil || k.old[i] {
			out = append(out, l)
		}
	}
	for i, l := range now[k.B0:k.B1] {
		if k.new != nil && !k.new[i] {
			out = append(out, l)
		}
	}
	return out
}

// lineEdit replaces lines by others.
type lineEdit struct {
	from, to int
	with     []string
}

// applyEdits applies edits that do not overlap to a text.
func applyEdits(text []string, edits []lineEdit) ([]byte, bool) {
	slices.SortStableFunc(edits, func(a, b lineEdit) int { return a.from - b.from })
	var out []string
	at := 0
	for _, e := range edits {
		if e.from < at || e.to < e.from || e.to > len(text) {
			return nil, false
		}
		out = append(append(out, text[at:e.from]...), e.with...)
		at = e.to
	}
	out = append(out, text[at:]...)
	var b strings.Builder
	for i, l := range out {
		b.WriteString(l)
		if i < len(out)-1 && !strings.HasSuffix(l, "\n") { // it was the last line, and is no longer
			b.WriteByte('\n')
		}
	}
	return []byte(b.String()), true
}

// takeForward applies picks of the diff from old to now to target, which may differ from old. It skips what target already has. It fails
// with part_overlaps if target differs in the same lines in another way.
func takeForward(path string, picks []pick, old, now, target []string) ([]byte, error) {
	fromOld, fromNow, toNow := git.DiffLines(old, target), git.DiffLines(now, target), []git.LineBlock(nil)
	var edits []lineEdit
	for _, k := range picks {
		if at, ok := git.CarryRange(fromOld, k.A0, k.A1); ok {
			edits = append(edits, lineEdit{at, at + k.A1 - k.A0, k.forward(old, now)})
			continue
		}
		b0, b1 := k.B0, k.B1
		if b0 == b1 { // nothing is left of it: compare the lines around it
			b0, b1 = max(b0-1, 0), min(b1+1, len(now))
		}
		if _, there := git.CarryRange(fromNow, b0, b1); there && k.old == nil && b1 > b0 {
			continue
		}
		if toNow == nil {
			toNow = git.DiffLines(target, now)
		}
		more, ok := within(toNow, k, now)
		if !ok {
			return nil, fault.New(fault.Conflict, "part_overlaps",
				"Some of the chosen lines of %q are staged or committed in another form. Take the whole file, or choose against the last commit.", path).With("path", guest.EncodePath(path))
		}
		edits = append(edits, more...)
	}
	out, ok := applyEdits(target, edits)
	if !ok {
		return nil, movedFault(path)
	}
	return out, nil
}

// within are the differences between a target and the new text that are within a whole pick.
func within(toNow []git.LineBlock, k pick, now []string) ([]lineEdit, bool) {
	if k.old != nil {
		return nil, false
	}
	var out []lineEdit
	for _, x := range toNow {
		switch {
		case x.B0 >= k.B0 && x.B1 <= k.B1:
			out = append(out, lineEdit{x.A0, x.A1, now[x.B0:x.B1]})
		case x.B0 < k.B1 && x.B1 > k.B0:
			return nil, false
		}
	}
	return out, len(out) > 0
}

// takeBack reverts picks of the diff from old to now in target. With exact they must be in it where they were shown.
func takeBack(picks []pick, old, now, target []string, exact bool) ([]byte, bool) {
	moved := git.DiffLines(now, target)
	var edits []lineEdit
	for _, k := range picks {
		at, ok := k.B0, len(moved) == 0
		if !ok {
			at, ok = git.CarryRange(moved, k.B0, k.B1)
		}
		if !ok || exact && at != k.B0 {
			return nil, false
		}
		edits = append(edits, lineEdit{at, at + k.B1 - k.B0, k.backward(old, now)})
	}
	return applyEdits(target, edits)
}

// unmoved reports whether the picks are in target where they are in now.
func unmoved(picks []pick, now, target []string) bool {
	moved := git.DiffLines(now, target)
	for _, k := range picks {
		if at, ok := git.CarryRange(moved, k.B0, k.B1); len(moved) > 0 && (!ok || at != k.B0) {
			return false
		}
	}
	return true
}
