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

// The ignored files that a project selects move along with a workspace, also to and from sandboxes with their own disk. A bundle takes them
// there. Each snapshot that asks the sandbox for them stores the newest ones at a ref, and when the sandbox has ended, for whatever reason,
// they are written to the worktree on this server: the next sandbox gets them from there, be it another folder of this server or a bundle
// again. What can be synced back can be sent, and no more: the bounds are those of askIgnored.

// RemoteIgnoredRef stores the ignored files that a remote workspace's sandbox had when last asked. It is deleted with the sandbox.
func RemoteIgnoredRef(workspaceID string) string {
	return "refs/parawork/far/" + workspaceID + "/ignored"
}

// MissingWords lists files and why they are left out, grouped by reason.
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

// Ignored files that a project selects are in no snapshot's tree, because reviews, approvals, checks and comparisons are bound to trees,
// and git would commit them. They are a separate commit, an additional parent of the snapshot's, and are deleted with it.

// Bounds of the ignored files of one snapshot, in bytes and files. Those in a sandbox with its own disk are requested one by one.
const (
	ignoredFile, ignoredTotal, ignoredCount                   = 64 << 20, 256 << 20, 2000
	RemoteIgnoredFile, RemoteIgnoredTotal, RemoteIgnoredCount = 8 << 20, 64 << 20, 300
)

// ignoredNamed is how many left-out ignored files a snapshot lists.
const ignoredNamed = 100

// TrashIgnored stores the ignored files of an archived or deleted workspace.
func TrashIgnored(workspaceID string) string {
	return "refs/parawork/trash/" + workspaceID + "/ignored"
}

// WantsIgnored reports whether a snapshot of the kind includes the ignored files the project selects.
func WantsIgnored(p workspaces.Project, kind string) bool {
	return len(p.KeepIgnored) > 0 && (kind == SnapKept || kind == SnapManual)
}

// RemoteIgnored are the ignored files of a sandbox with its own disk.
type RemoteIgnored struct {
	files   []edit
	missing []workspaces.Missing
	Failed  string // why not all could be read, for people; "" = all within the bounds were
}

// saveIgnored makes the commit of the ignored files, "" when there are none, and lists what is left out. It returns only errors of this
// server, such as a full disk: a worktree that breaks git's listing does not stop a snapshot.
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
			t.Missing = append(t.Missing, workspaces.Missing{Reason: "The sandbox could not be asked: ignored files are from the last time it was."})
			return commit, n, err
		}
		t.Missing = append(t.Missing, workspaces.Missing{Reason: "The sandbox could not be asked: ignored files are as they were sent to it."})
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

// fewOf bounds how many files are listed.
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
			t.miss(name, fmt.Sprintf("A snapshot has at most %d ignored files.", ignoredCount), 0)
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

// ExcludedMissing is why a snapshot leaves out an ignored file that the repository's info/exclude lists: a secret's file that somebody
// changed stays when its session ends, and is still a secret.
const ExcludedMissing = "The repository's info/exclude lists it, like files of secrets."

// ExcludedNames are the lines of a repository's info/exclude.
func ExcludedNames(gitDir string) (map[string]bool, error) {
	root, err := os.OpenRoot(gitDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	lines := make(map[string]bool)
	f, err := root.OpenFile("info/exclude", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil { // there is none, or it is not a plain file
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

// ListIgnored lists the ignored files that match the project's patterns. git only lists names, in a scratch repository.
func (t *Job) ListIgnored(ctx context.Context, root *os.Root) ([]string, error) {
	if err := git.ExcludesOn(t.Scratch, t.p); err != nil {
		return nil, err
	}
	if err := t.s.repo.ScratchIndex(ctx, t.Scratch, t.p, t.w, t.Head); err != nil {
		return nil, err
	}
	list, cancel := context.WithTimeout(ctx, t.s.cfg.GitTimeout) // a FIFO named .gitignore blocks git forever
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

// writeIgnored makes the commit. The same files always make the same commit.
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

// AskIgnored reads the ignored files of an awake sandbox with its own disk; nil when there is none, or no file is selected. Call it before
// taking the snapshot's lock: syncing files takes snapshots itself.
func (s *Service) AskIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace, kind string) *RemoteIgnored {
	if !WantsIgnored(p, kind) || !s.sandboxes.Remote(w.ID) || s.sandboxes.Asleep(ctx, w) {
		return nil
	}
	pl, ok := s.records.RemoteSandboxes().At(w.ID) // it may be about to be suspended or to end: do not create or wake another
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
			miss("git cannot store a file of this name.")
			continue
		case secret[git.ExcludePattern(name)]:
			miss(ExcludedMissing)
			continue
		case len(t.files) >= RemoteIgnoredCount:
			miss(fmt.Sprintf("A snapshot has at most %d ignored files of such a sandbox.", RemoteIgnoredCount))
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

// readPlainScript prints x or - for whether a file is executable, and at most $2 bytes of it. It reads regular files only.
const readPlainScript = `[ -f "$1" ] && [ ! -L "$1" ] || exit 3; if [ -x "$1" ]; then printf x; else printf -; fi; exec head -c "$2" "$1"`

// readPlain reads a regular file of the sandbox, at most one byte more than limit.
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

// IgnoredFiles are the files of a commit of ignored files that may be written now: without those of secrets.
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

// RestoreIgnored restores ignored files of a snapshot if there are no others of these names. It leaves files with other content as they
// are, and lists them.
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
		} else if same { // unchanged
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
