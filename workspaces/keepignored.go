package workspaces

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
)

// Ignored files that a project wants kept are in no snapshot's tree: reviews, approvals, checks and comparisons are bound to trees, and git
// would commit them. They are a commit of their own, a further parent of the snapshot's, and live and end with it.

// Bounds of the ignored files one snapshot holds, in bytes and files. Those in a sandbox with a disk of its own are asked for one by one.
const (
	ignoredFile, ignoredTotal, ignoredCount          = 64 << 20, 256 << 20, 2000
	farIgnoredFile, farIgnoredTotal, farIgnoredCount = 8 << 20, 64 << 20, 300
)

// ignoredNamed is how many ignored files that are not kept a snapshot names.
const ignoredNamed = 100

// trashIgnored holds the ignored files of a workspace that was put away.
func trashIgnored(workspaceID string) string {
	return "refs/parawork/trash/" + workspaceID + "/ignored"
}

// wantsIgnored reports whether a snapshot of the kind has the ignored files the project chose, too.
func wantsIgnored(p Project, kind string) bool {
	return len(p.KeepIgnored) > 0 && (kind == SnapKept || kind == SnapManual)
}

// RemoteIgnored are ignored files as they are in a sandbox with a disk of its own.
type RemoteIgnored struct {
	files   []edit
	missing []Missing
	failed  string // why not all of them could be read, in words; "" = all could that the bounds let in
}

// keepIgnored makes the commit of the ignored files, "" where there are none. What is left out is named. An error is one of this server's
// own, such as a full disk: what the worktree does to git's listing stops no snapshot.
func (t *taking) keepIgnored(ctx context.Context, root *os.Root) (commit string, n int, err error) {
	if !wantsIgnored(t.p, t.f.Kind) {
		return "", 0, nil
	}
	before := t.missing
	t.missing = nil
	defer func() { t.missing = append(before, fewOf(t.missing)...) }()
	var files []edit
	switch {
	case t.f.Ignored != nil:
		files = slices.DeleteFunc(slices.Clone(t.f.Ignored.files), func(e edit) bool {
			secret := t.secrets.Has(e.path, e.oid)
			if secret {
				t.miss(e.path, secretMissing, int64(len(e.data)))
			}
			return secret
		})
		for i, e := range files {
			if data := bytes.Clone(e.data); t.secrets.Values.Mask(data, t.secrets.hides) {
				t.miss(e.path, valueMissing, int64(len(data)))
				files[i].data, files[i].oid = data, blobName(t.head, data)
			}
		}
		t.missing = append(t.missing, t.f.Ignored.missing...)
	case t.s.Remote(t.w.ID):
		commit, n, err := t.lastIgnored(ctx)
		if err != nil || commit != "" {
			t.missing = append(t.missing, Missing{Reason: "The sandbox could not be asked: ignored files are as it had them when it was."})
			return commit, n, err
		}
		t.missing = append(t.missing, Missing{Reason: "The sandbox could not be asked: ignored files are as they were sent there."})
		fallthrough
	default:
		if files, err = t.readIgnored(ctx, root); err != nil {
			return "", 0, err
		}
	}
	if len(files) == 0 {
		return "", 0, nil
	}
	commit, err = t.writeIgnored(ctx, files)
	return commit, len(files), err
}

// fewOf bounds how many files are named.
func fewOf(list []Missing) []Missing {
	if len(list) <= ignoredNamed {
		return list
	}
	return append(list[:ignoredNamed:ignoredNamed], Missing{Reason: fmt.Sprintf("And %d more ignored files.", len(list)-ignoredNamed)})
}

// readIgnored reads the ignored files of a worktree on this server.
func (t *taking) readIgnored(ctx context.Context, root *os.Root) ([]edit, error) {
	names, err := t.listIgnored(ctx, root)
	if err != nil {
		if ctx.Err() != nil || diskIsFull(err) {
			return nil, err
		}
		t.missing = append(t.missing, Missing{Reason: "The ignored files could not be listed: " + Reason(err)})
		return nil, nil
	}
	t.limit, t.total = ignoredFile, ignoredTotal
	secret, err := excludedNames(t.p.GitDir)
	if err != nil {
		return nil, err
	}
	out := edits{t: t}
	for _, name := range names {
		switch {
		case secret[ExcludePattern(name)]:
			t.miss(name, excludedMissing, 0)
			continue
		case len(out.list) >= ignoredCount:
			t.miss(name, fmt.Sprintf("A snapshot keeps %d ignored files at most.", ignoredCount), 0)
			continue
		}
		e, ok, err := t.readFile(ctx, root, name, entry{})
		if err != nil {
			return nil, err
		}
		if !ok || e.oid == "" {
			continue
		}
		if err := out.add(ctx, e); err != nil {
			return nil, err
		}
	}
	return out.list, nil
}

// excludedMissing is why an ignored file is not kept that the repository's info/exclude names: a secret's file that somebody changed stays
// when its session ends, and is a secret's still.
const excludedMissing = "The repository's info/exclude names it, as it does files of secrets."

// excludedNames are the lines of a repository's info/exclude.
func excludedNames(gitDir string) (map[string]bool, error) {
	root, err := os.OpenRoot(gitDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	lines := make(map[string]bool)
	f, err := root.OpenFile("info/exclude", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil { // there is none, or somebody's trick
		return lines, nil //nolint:nilerr // as git without one
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return lines, err
	}
	for sc := bufio.NewScanner(io.LimitReader(f, maxExclude)); sc.Scan(); {
		lines[sc.Text()] = true
	}
	return lines, nil
}

// listIgnored names the ignored files the project's patterns want. git only lists names, from a desk of ours.
func (t *taking) listIgnored(ctx context.Context, root *os.Root) ([]string, error) {
	if err := excludesOn(t.desk, t.p); err != nil {
		return nil, err
	}
	if err := t.s.deskIndex(ctx, t.desk, t.p, t.w, t.head); err != nil {
		return nil, err
	}
	list, cancel := context.WithTimeout(ctx, t.s.cfg.GitTimeout) // a FIFO named .gitignore has git wait for ever
	defer cancel()
	out, err := t.desk.Run(list, hostgit.Call{WorkTree: t.w.Path, Max: 256 << 20, Args: []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for ignored files")
	}
	var names []string
	c := ignored.Copier{From: root, Patterns: t.p.KeepIgnored, Found: func(name string) { names = append(names, name) }}
	for line := range strings.SplitSeq(string(out), "\x00") {
		if err := c.Take(list, line); err != nil {
			return nil, err
		}
	}
	return t.tidy(names), nil
}

// writeIgnored makes the commit. The same files make the same commit, whenever they are kept.
func (t *taking) writeIgnored(ctx context.Context, files []edit) (string, error) {
	const message = "parawork: ignored files\n"
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() { // ends when the pipe is read to its end or closed below
		defer close(done)
		b := bufio.NewWriterSize(pw, 256<<10)
		fmt.Fprintf(b, "commit refs/heads/ignored\nmark :1\ncommitter Parawork <parawork@localhost> 0 +0000\ndata %d\n%s", len(message), message)
		writeEdits(b, files)
		b.WriteString("\nget-mark :1\ndone\n")
		pw.CloseWithError(b.Flush())
	}()
	out, err := t.desk.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done", "--date-format=raw"}, Stdin: pr, Timeout: t.s.cfg.StepTimeout,
		Config: []string{"core.protectHFS=false", "core.protectNTFS=false"}})
	pr.CloseWithError(io.ErrClosedPipe)
	<-done
	if err != nil {
		return "", GitFault(err, fault.Unavailable, "snapshot_failed", "Writing the ignored files")
	}
	commit := strings.TrimSpace(string(out))
	if !IsCommitID(commit) {
		return "", fmt.Errorf("fast-import answered %.200q", out)
	}
	return commit, nil
}

// askIgnored reads the ignored files of a sandbox with a disk of its own that is awake; nil where there is none, or none is wanted. It is
// asked before the snapshot's lock is taken: files on their way here are snapshots themselves.
func (s *Service) askIgnored(ctx context.Context, p Project, w Workspace, kind string) *RemoteIgnored {
	if !wantsIgnored(p, kind) || !s.Remote(w.ID) || s.asleep(ctx, w) {
		return nil
	}
	pl, ok := s.Sandboxes().At(w.ID) // it may be about to stand still or to end, and nobody makes or wakes another
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	b, err := s.OpenSandboxWith(ctx, w, pl.Run)
	var names []string
	if err == nil {
		defer b.close(ctx)
		names, err = b.ignoredNames(ctx, p.KeepIgnored)
	}
	if err != nil {
		return unlisted(err)
	}
	secret, err := excludedNames(p.GitDir)
	if err != nil {
		return unlisted(err)
	}
	slices.Sort(names)
	var t RemoteIgnored
	left := farIgnoredTotal
	for _, name := range slices.Compact(names) {
		miss := func(why string) {
			t.missing = append(t.missing, Missing{Path: guest.EncodePath(name), Reason: why})
		}
		switch {
		case badName(name) || !filepath.IsLocal(name):
			miss("git keeps no file of this name.")
			continue
		case secret[ExcludePattern(name)]:
			miss(excludedMissing)
			continue
		case len(t.files) >= farIgnoredCount:
			miss(fmt.Sprintf("A snapshot keeps %d ignored files of such a sandbox at most.", farIgnoredCount))
			continue
		}
		mode, data, err := b.readPlain(ctx, name, farIgnoredFile)
		switch {
		case errors.Is(err, errNotPlain):
		case err != nil:
			miss("It could not be read.")
			t.failed = fmt.Sprintf("%s could not be read.", guest.EncodePath(name))
		case len(data) > farIgnoredFile:
			miss(fmt.Sprintf("It is larger than %d MB.", farIgnoredFile>>20))
		case len(data) > left:
			miss("The snapshot would be too large with it.")
		default:
			left -= len(data)
			t.files = append(t.files, edit{path: name, entry: entry{mode, blobName(w.BaseCommit, data)}, data: data})
		}
	}
	return &t
}

func unlisted(err error) *RemoteIgnored {
	why := "The ignored files could not be listed: " + Reason(err)
	return &RemoteIgnored{missing: []Missing{{Reason: why}}, failed: why}
}

// errNotPlain says that a name is not a regular file's.
var errNotPlain = errors.New("no regular file")

// readPlainScript prints x or -, whether a file can be run, and at most $2 bytes of it. It reads neither links nor what is no file.
const readPlainScript = `[ -f "$1" ] && [ ! -L "$1" ] || exit 3; if [ -x "$1" ]; then printf x; else printf -; fi; exec head -c "$2" "$1"`

// readPlain reads a regular file of the sandbox, at most a byte more than limit.
func (b *Sandbox) readPlain(ctx context.Context, name string, limit int64) (mode string, data []byte, err error) {
	r, err := b.run(ctx, executors.BoxCommand{Argv: []string{"/bin/sh", "-c", readPlainScript, "read", "./" + name, fmt.Sprint(limit + 1)}})
	switch {
	case err != nil:
		return "", nil, err
	case r.ExitCode == 3:
		return "", nil, errNotPlain
	case r.ExitCode != 0 || len(r.Stdout) == 0:
		return "", nil, &boxError{sub: "read", result: r}
	case r.Stdout[0] == 'x':
		return "100755", bytes.Clone(r.Stdout[1:]), nil
	}
	return "100644", append([]byte{}, r.Stdout[1:]...), nil
}

// IgnoredFiles are the files of a commit of ignored files that may be written now: those of secrets are not.
func (s *Service) IgnoredFiles(ctx context.Context, p Project, workspaceID, commit string) ([]ChangedFile, error) {
	list, err := s.CommitFiles(ctx, p.ID, commit, "")
	if err != nil {
		return nil, err
	}
	secrets, err := s.SecretFiles(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	var out []ChangedFile
	for _, f := range list {
		if !secrets.Has(f.Path, f.OID) {
			out = append(out, ChangedFile{Path: f.Path, Mode: fmt.Sprintf("%06o", f.Mode), NewBlob: f.OID, Size: f.Size})
		}
	}
	return out, nil
}

// restoreIgnored brings ignored files of a snapshot back where nothing lies under their names. What lies there with other bytes is left as it
// is, and named.
func (s *Service) restoreIgnored(ctx context.Context, p Project, w Workspace, commit string, dryRun bool, out *Restored) error {
	files, err := s.IgnoredFiles(ctx, p, w.ID, commit)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return DiskFault(err, "Opening the workspace's folder")
	}
	defer root.Close()
	var lack []ChangedFile
	for _, f := range files {
		as := f
		as.OldBlob = f.NewBlob
		if _, same, err := s.stillAs(ctx, p, root, as); err != nil {
			return err
		} else if same { // as it was
			continue
		}
		lack = append(lack, f)
		if !dryRun {
			continue
		}
		if _, free, err := s.stillAs(ctx, p, root, f); err != nil {
			return err
		} else if free {
			out.Ignored = append(out.Ignored, f.Path)
		} else {
			out.IgnoredLeft = append(out.IgnoredLeft, f.Path)
		}
	}
	if dryRun || len(lack) == 0 {
		return nil
	}
	var done Restored
	err = s.apply(ctx, p, w, lack, &done)
	out.Ignored, out.IgnoredLeft = append(out.Ignored, done.Changed...), append(out.IgnoredLeft, done.Conflicts...)
	return err
}

// rebuildIgnored brings back the ignored files of a workspace that was put away, into its folder made anew.
func (s *Service) rebuildIgnored(ctx context.Context, p Project, w Workspace) error {
	commit, err := s.CommitOf(ctx, p.GitDir, trashIgnored(w.ID))
	if err != nil || commit == "" {
		return err
	}
	files, err := s.IgnoredFiles(ctx, p, w.ID, commit)
	if err != nil {
		return err
	}
	_, err = s.putIgnored(ctx, p, w, files, nil)
	return err
}
