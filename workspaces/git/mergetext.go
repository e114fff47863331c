package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// Contents reads, writes, compares and merges the contents of files by their ids.
type Contents struct{ *Repo }

// MaxMerged is the size of the largest text that is merged, in bytes.
const MaxMerged = 4 << 20

// Bounds of the conflicts that a merge tells of.
const (
	maxHunks = 50
	maxHunk  = 16 << 10 // bytes of one side
)

// Hunk is a place at which two changes of a text contradict each other. Long sides are cut.
type Hunk struct {
	Line   int // of ours, from 1
	Ours   string
	Base   string
	Theirs string
}

// Merged is the result of a merge of texts.
type Merged struct {
	Text  []byte
	Hunks []Hunk // conflicts: Text is no result if there are any
	Total int    // number of conflicts
}

// MergeTexts applies to ours what changed from base to theirs.
func (s Contents) MergeTexts(ctx context.Context, p workspaces.Project, ours, base, theirs []byte) (Merged, error) {
	dir, err := os.MkdirTemp(s.records.TmpDir(), "merge-")
	if err != nil {
		return Merged{}, DiskFault(err, "Merging a text")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	size := 16 // of the markers: longer than any line of the texts that looks like one
	for i, text := range [...][]byte{ours, base, theirs} {
		for bytes.Contains(text, bytes.Repeat([]byte("="), size)) {
			size += 16
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), text, 0o600); err != nil {
			return Merged{}, DiskFault(err, "Merging a text")
		}
	}
	var out bytes.Buffer
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Dir: dir, Stdout: &out,
		Args: []string{"merge-file", "-p", "-q", "--diff3", "--marker-size=" + strconv.Itoa(size), "-L", "ours", "-L", "base", "-L", "theirs", "0", "1", "2"}})
	failed, ended := errors.AsType[*hostgit.Error](err)
	switch {
	case ended && failed.Err == nil && failed.Code > 0 && failed.Code < 128: // the number of conflicts
		m := Merged{Text: out.Bytes()}
		m.Hunks, m.Total = hunksOf(out.String(), size)
		return m, nil
	case err != nil:
		return Merged{}, GitFault(err, fault.Unavailable, "repository_unreadable", "Merging a text")
	}
	return Merged{Text: out.Bytes()}, nil
}

// hunksOf reads the conflicts between markers of a size.
func hunksOf(text string, size int) (hunks []Hunk, total int) {
	mark := func(c string) string { return strings.Repeat(c, size) }
	var h Hunk
	var side *string
	line := 1
	for l := range strings.Lines(text) {
		switch plain := strings.TrimRight(l, "\r\n"); {
		case plain == mark("<")+" ours":
			h = Hunk{Line: line}
			side = &h.Ours
		case plain == mark("|")+" base" && side != nil:
			side = &h.Base
		case plain == mark("=") && side != nil:
			side = &h.Theirs
		case plain == mark(">")+" theirs" && side != nil:
			if total++; len(hunks) < maxHunks {
				hunks = append(hunks, h)
			}
			side = nil
		default:
			if side == nil || side == &h.Ours {
				line++
			}
			if side != nil && len(*side)+len(l) <= maxHunk {
				*side += l
			}
		}
	}
	return hunks, total
}

// BlobSize returns the size of an object of the repository; fault.NotFound if it is not there any more.
func (s Contents) BlobSize(ctx context.Context, p workspaces.Project, oid string) (int64, error) {
	size, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"cat-file", "-s", oid}})
	if failed, ok := errors.AsType[*hostgit.Error](err); ok && failed.Err == nil && failed.Code > 0 {
		return 0, fault.New(fault.NotFound, "blob_not_found", "The repository does not have this content any more.")
	}
	n := int64(-1)
	if err == nil {
		n, err = strconv.ParseInt(size, 10, 64)
	}
	return n, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading a file")
}

// Blob reads an object of the repository. most bounds its size; fault.NotFound if it is not there any more, fault.TooLarge if it is larger.
func (s Contents) Blob(ctx context.Context, p workspaces.Project, oid string, most int64) ([]byte, error) {
	n, err := s.BlobSize(ctx, p, oid)
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, fault.New(fault.TooLarge, "file_too_large", "The file has %d bytes, more than the %d that can be compared line by line.", n, most)
	}
	var out []byte
	err = s.blobsOf(ctx, p.GitDir, []hostgit.TreeFile{{OID: oid, Size: n}}, func(_ hostgit.TreeFile, r io.Reader) (err error) {
		out, err = io.ReadAll(io.LimitReader(r, most+1))
		return err
	})
	return out, err
}

// PutBlob writes an object to the repository and returns its id. No ref names it: git removes it some weeks later.
func (s Contents) PutBlob(ctx context.Context, p workspaces.Project, content []byte) (string, error) {
	oid, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: bytes.NewReader(content), Args: []string{"hash-object", "-w", "--stdin"}})
	return oid, GitFault(err, fault.Unavailable, "repository_unreadable", "Writing a file to the repository")
}

// DiffBlobs returns the unified diff of two contents, "" being an empty one, without names of files and cut after whole lines. binary means
// that there is none.
func (s Contents) DiffBlobs(ctx context.Context, p workspaces.Project, from, to string, most int) (diff string, cut, binary bool, err error) {
	for _, side := range [...]*string{&from, &to} {
		if *side == "" {
			if *side, err = s.PutBlob(ctx, p, nil); err != nil {
				return "", false, false, err
			}
		}
	}
	out := &beginning{most: most + maxDiffHead}
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdout: out, Args: []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", from, to, "--"}})
	if failed, ok := errors.AsType[*hostgit.Error](err); ok && failed.Err == nil && failed.Code == 128 {
		return "", false, false, fault.New(fault.NotFound, "blob_not_found", "The repository does not have this content any more.")
	}
	if err != nil {
		return "", false, false, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing two contents")
	}
	text := out.text.String()
	at := strings.Index("\n"+text, "\n@@")
	if at < 0 {
		return "", false, strings.Contains(text, "\nBinary files "), nil
	}
	if text = text[at:]; len(text) > most || out.cut {
		text = text[:min(len(text), most)]
		text = text[:strings.LastIndexByte(text, '\n')+1]
		return text, true, false, nil
	}
	return text, false, false, nil
}

// maxDiffHead is more than the lines have that precede the first hunk of a diff.
const maxDiffHead = 1 << 10

// beginning stores the beginning of what is written.
type beginning struct {
	text strings.Builder
	most int
	cut  bool
}

func (b *beginning) Write(p []byte) (int, error) {
	room := b.most - b.text.Len()
	b.cut = b.cut || len(p) > room
	b.text.Write(p[:min(len(p), room)])
	return len(p), nil
}
