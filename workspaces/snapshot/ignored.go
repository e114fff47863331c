package snapshot

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
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// The ignored files a project wants kept go along with a workspace, also to and from places with a disk of their own. A bundle brings them
// there. Each snapshot that asks the sandbox for them leaves the newest of them at a ref, and when the sandbox has ended, however that was,
// they are put into the worktree on this server: the next place has them from there, be it another folder of this server or a bundle again.
// What can be brought home can be sent, and no more: the bounds are those of askIgnored.

// RemoteIgnoredRef holds the ignored files that a far workspace's sandbox had when it was asked last. It ends with the sandbox.
func RemoteIgnoredRef(workspaceID string) string {
	return "refs/parawork/far/" + workspaceID + "/ignored"
}

// MissingWords name files and why they are left out, those with the same reason together.
func MissingWords(list []workspaces.Missing) string {
	var whys []string
	by := make(map[string][]string)
	for _, m := range list {
		why := strings.TrimSuffix(m.Reason, ".")
		if by[why] == nil {
			whys = append(whys, why)
		}
		name := m.Path
		if m.Size > 0 {
			name += " (" + git.SizeWords(m.Size) + ")"
		}
		by[why] = append(by[why], name)
	}
	var out []string
	for _, why := range whys {
		out = append(out, git.SomeNames(by[why])+": "+git.LowerFirst(why))
	}
	return strings.Join(out, "; ")
}

// Ignored files that a project wants kept are in no snapshot's tree: reviews, approvals, checks and comparisons are bound to trees, and git
// would commit them. They are a commit of their own, a further parent of the snapshot's, and live and end with it.

// Bounds of the ignored files one snapshot holds, in bytes and files. Those in a sandbox with a disk of its own are asked for one by one.
const (
	ignoredFile, ignoredTotal, ignoredCount                   = 64 << 20, 256 << 20, 2000
	RemoteIgnoredFile, RemoteIgnoredTotal, RemoteIgnoredCount = 8 << 20, 64 << 20, 300
)

// ignoredNamed is how many ignored files that are not kept a snapshot names.
const ignoredNamed = 100

// TrashIgnored holds the ignored files of a workspace that was put away.
func TrashIgnored(workspaceID string) string {
	return "refs/parawork/trash/" + workspaceID + "/ignored"
}

// WantsIgnored reports whether a snapshot of the kind has the ignored files the project chose, too.
func WantsIgnored(p workspaces.Project, kind string) bool {
	return len(p.KeepIgnored) > 0 && (kind == SnapKept || kind == SnapManual)
}

// RemoteIgnored are ignored files as they are in a sandbox with a disk of its own.
type RemoteIgnored struct {
	files   []edit
	missing []workspaces.Missing
	Failed  string // why not all of them could be read, in words; "" = all could that the bounds let in
}

// saveIgnored makes the commit of the ignored files, "" where there are none. What is left out is named. An error is one of this server's
// own, such as a full disk: what the worktree does to git's listing stops no snapshot.
func (t *Job) saveIgnored(ctx context.Context, root *os.Root) (commit string, n int, err error) {
	if !WantsIgnored(t.p, t.f.Kind) {
		return "", 0, nil
	}
	before := t.Missing
	t.Missing = nil
	defer func() { t.Missing = append(before, fewOf(t.Missing)...) }()
	var files []edit
	switch {
	case t.f.Ignored != nil:
		files = slices.DeleteFunc(slices.Clone(t.f.Ignored.files), func(e edit) bool {
			secret := secretfiles.Has(t.Secrets, e.path, e.oid)
			if secret {
				t.miss(e.path, sandboxgit.SecretMissing, int64(len(e.data)))
			}
			return secret
		})
		for i, e := range files {
			if data := bytes.Clone(e.data); t.Secrets.Values.Mask(data, t.Secrets.Hides) {
				t.miss(e.path, sandboxgit.ValueMissing, int64(len(data)))
				files[i].data, files[i].oid = data, sandboxgit.BlobName(t.Head, data)
			}
		}
		t.Missing = append(t.Missing, t.f.Ignored.missing...)
	case t.s.sandboxes.Remote(t.w.ID):
		commit, n, err := t.lastIgnored(ctx)
		if err != nil || commit != "" {
			t.Missing = append(t.Missing, workspaces.Missing{Reason: "The sandbox could not be asked: ignored files are as it had them when it was."})
			return commit, n, err
		}
		t.Missing = append(t.Missing, workspaces.Missing{Reason: "The sandbox could not be asked: ignored files are as they were sent there."})
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
func fewOf(list []workspaces.Missing) []workspaces.Missing {
	if len(list) <= ignoredNamed {
		return list
	}
	return append(list[:ignoredNamed:ignoredNamed], workspaces.Missing{Reason: fmt.Sprintf("And %d more ignored files.", len(list)-ignoredNamed)})
}

// readIgnored reads the ignored files of a worktree on this server.
func (t *Job) readIgnored(ctx context.Context, root *os.Root) ([]edit, error) {
	names, err := t.ListIgnored(ctx, root)
	if err != nil {
		if ctx.Err() != nil || git.DiskIsFull(err) {
			return nil, err
		}
		t.Missing = append(t.Missing, workspaces.Missing{Reason: "The ignored files could not be listed: " + git.Reason(err)})
		return nil, nil
	}
	t.limit, t.total = ignoredFile, ignoredTotal
	secret, err := ExcludedNames(t.p.GitDir)
	if err != nil {
		return nil, err
	}
	out := edits{t: t}
	for _, name := range names {
		switch {
		case secret[git.ExcludePattern(name)]:
			t.miss(name, ExcludedMissing, 0)
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

// ExcludedMissing is why an ignored file is not kept that the repository's info/exclude names: a secret's file that somebody changed stays
// when its session ends, and is a secret's still.
const ExcludedMissing = "The repository's info/exclude names it, as it does files of secrets."

// ExcludedNames are the lines of a repository's info/exclude.
func ExcludedNames(gitDir string) (map[string]bool, error) {
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
	for sc := bufio.NewScanner(io.LimitReader(f, git.MaxExclude)); sc.Scan(); {
		lines[sc.Text()] = true
	}
	return lines, nil
}

// ListIgnored names the ignored files the project's patterns want. git only lists names, from a desk of ours.
func (t *Job) ListIgnored(ctx context.Context, root *os.Root) ([]string, error) {
	if err := git.ExcludesOn(t.Scratch, t.p); err != nil {
		return nil, err
	}
	if err := t.s.repo.ScratchIndex(ctx, t.Scratch, t.p, t.w, t.Head); err != nil {
		return nil, err
	}
	list, cancel := context.WithTimeout(ctx, t.s.cfg.GitTimeout) // a FIFO named .gitignore has git wait for ever
	defer cancel()
	out, err := t.Scratch.Run(list, hostgit.Call{WorkTree: t.w.Path, Max: 256 << 20, Args: []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"}})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for ignored files")
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
func (t *Job) writeIgnored(ctx context.Context, files []edit) (string, error) {
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
	out, err := t.Scratch.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done", "--date-format=raw"}, Stdin: pr, Timeout: t.s.cfg.StepTimeout,
		Config: []string{"core.protectHFS=false", "core.protectNTFS=false"}})
	pr.CloseWithError(io.ErrClosedPipe)
	<-done
	if err != nil {
		return "", git.GitFault(err, fault.Unavailable, "snapshot_failed", "Writing the ignored files")
	}
	commit := strings.TrimSpace(string(out))
	if !git.IsCommitID(commit) {
		return "", fmt.Errorf("fast-import answered %.200q", out)
	}
	return commit, nil
}

// AskIgnored reads the ignored files of a sandbox with a disk of its own that is awake; nil where there is none, or none is wanted. It is
// asked before the snapshot's lock is taken: files on their way here are snapshots themselves.
func (s *Service) AskIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace, kind string) *RemoteIgnored {
	if !WantsIgnored(p, kind) || !s.sandboxes.Remote(w.ID) || s.sandboxes.Asleep(ctx, w) {
		return nil
	}
	pl, ok := s.records.RemoteSandboxes().At(w.ID) // it may be about to stand still or to end, and nobody makes or wakes another
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	b, err := s.sandboxes.OpenWith(ctx, w, pl.Run)
	var names []string
	if err == nil {
		defer b.Close(ctx)
		names, err = b.IgnoredNames(ctx, p.KeepIgnored)
	}
	if err != nil {
		return unlisted(err)
	}
	secret, err := ExcludedNames(p.GitDir)
	if err != nil {
		return unlisted(err)
	}
	slices.Sort(names)
	var t RemoteIgnored
	left := RemoteIgnoredTotal
	for _, name := range slices.Compact(names) {
		miss := func(why string) {
			t.missing = append(t.missing, workspaces.Missing{Path: guest.EncodePath(name), Reason: why})
		}
		switch {
		case BadName(name) || !filepath.IsLocal(name):
			miss("git keeps no file of this name.")
			continue
		case secret[git.ExcludePattern(name)]:
			miss(ExcludedMissing)
			continue
		case len(t.files) >= RemoteIgnoredCount:
			miss(fmt.Sprintf("A snapshot keeps %d ignored files of such a sandbox at most.", RemoteIgnoredCount))
			continue
		}
		mode, data, err := readPlain(ctx, b, name, RemoteIgnoredFile)
		switch {
		case errors.Is(err, sandboxgit.ErrNotPlain):
		case err != nil:
			miss("It could not be read.")
			t.Failed = fmt.Sprintf("%s could not be read.", guest.EncodePath(name))
		case len(data) > RemoteIgnoredFile:
			miss(fmt.Sprintf("It is larger than %d MB.", RemoteIgnoredFile>>20))
		case len(data) > left:
			miss("The snapshot would be too large with it.")
		default:
			left -= len(data)
			t.files = append(t.files, edit{path: name, entry: entry{mode, sandboxgit.BlobName(w.BaseCommit, data)}, data: data})
		}
	}
	return &t
}

func unlisted(err error) *RemoteIgnored {
	why := "The ignored files could not be listed: " + git.Reason(err)
	return &RemoteIgnored{missing: []workspaces.Missing{{Reason: why}}, Failed: why}
}

// readPlainScript prints x or -, whether a file can be run, and at most $2 bytes of it. It reads neither links nor what is no file.
const readPlainScript = `[ -f "$1" ] && [ ! -L "$1" ] || exit 3; if [ -x "$1" ]; then printf x; else printf -; fi; exec head -c "$2" "$1"`

// readPlain reads a regular file of the sandbox, at most a byte more than limit.
func readPlain(ctx context.Context, b *sandboxgit.Sandbox, name string, limit int64) (mode string, data []byte, err error) {
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: []string{"/bin/sh", "-c", readPlainScript, "read", "./" + name, fmt.Sprint(limit + 1)}})
	switch {
	case err != nil:
		return "", nil, err
	case r.ExitCode == 3:
		return "", nil, sandboxgit.ErrNotPlain
	case r.ExitCode != 0 || len(r.Stdout) == 0:
		return "", nil, &git.CommandError{Sub: "read", Result: r}
	case r.Stdout[0] == 'x':
		return "100755", bytes.Clone(r.Stdout[1:]), nil
	}
	return "100644", append([]byte{}, r.Stdout[1:]...), nil
}

// IgnoredFiles are the files of a commit of ignored files that may be written now: those of secrets are not.
func (s *Service) IgnoredFiles(ctx context.Context, p workspaces.Project, workspaceID, commit string) ([]git.ChangedFile, error) {
	list, err := s.repo.CommitFiles(ctx, p.ID, commit, "")
	if err != nil {
		return nil, err
	}
	secrets, err := s.secretFiles.SecretFiles(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	var out []git.ChangedFile
	for _, f := range list {
		if !secretfiles.Has(secrets, f.Path, f.OID) {
			out = append(out, git.ChangedFile{Path: f.Path, Mode: fmt.Sprintf("%06o", f.Mode), NewBlob: f.OID, Size: f.Size})
		}
	}
	return out, nil
}

// RestoreIgnored brings ignored files of a snapshot back where nothing lies under their names. What lies there with other bytes is left as it
// is, and named.
func (s *Service) RestoreIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace, commit string, dryRun bool, out *Restored) error {
	files, err := s.IgnoredFiles(ctx, p, w.ID, commit)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return git.DiskFault(err, "Opening the workspace's folder")
	}
	defer root.Close()
	var lack []git.ChangedFile
	for _, f := range files {
		as := f
		as.OldBlob = f.NewBlob
		if _, same, err := s.StillAs(ctx, p, root, as); err != nil {
			return err
		} else if same { // as it was
			continue
		}
		lack = append(lack, f)
		if !dryRun {
			continue
		}
		if _, free, err := s.StillAs(ctx, p, root, f); err != nil {
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
	err = s.Apply(ctx, p, w, lack, &done)
	out.Ignored, out.IgnoredLeft = append(out.Ignored, done.Changed...), append(out.IgnoredLeft, done.Conflicts...)
	return err
}
