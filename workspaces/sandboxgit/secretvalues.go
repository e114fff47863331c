package sandboxgit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// staged lists the secrets' files that an index would commit; git runs a git command with that index. Removing one from git is allowed.
func staged(f workspaces.SecretFiles, run func(args ...string) (string, error)) (names []string, was map[string]git.FileEntry, err error) {
	if !secretfiles.Some(f) {
		return nil, nil, nil
	}
	out, err := run("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", "--ignore-submodules=all", "HEAD")
	if err != nil {
		return nil, nil, git.SandboxFault(err, "worktree_unreadable", "Reading what is staged")
	}
	was = make(map[string]git.FileEntry)
	words := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		e, name := strings.Fields(strings.TrimPrefix(words[i], ":")), words[i+1]
		if len(e) != 5 || !git.IsCommitID(e[2]) || !git.IsCommitID(e[3]) {
			return nil, nil, fmt.Errorf("sandbox: diff-index answered %q", words[i])
		}
		if e[4] == "D" || !secretfiles.Has(f, name, e[3]) {
			continue
		}
		names = append(names, name)
		if e[4] != "A" {
			was[name] = git.FileEntry{Mode: e[0], OID: e[2]}
		}
	}
	return names, was, nil
}

// NoSecret rejects committing an index that has a secret's file.
func NoSecret(f workspaces.SecretFiles, run func(args ...string) (string, error)) error {
	names, _, err := staged(f, run)
	if err != nil || len(names) == 0 {
		return err
	}
	return fault.New(fault.Conflict, "secret_file_staged", "%q is a secret's file and cannot be committed. Have git ignore it, and unstage it: git rm --cached.", names[0]).With("paths", git.EncodePaths(names))
}

// stagedValue rejects committing files that contain a secret's value. git runs a git command with the index, run another one in the
// sandbox.
func (b *Sandbox) stagedValue(ctx context.Context, run func(args ...string) (string, error)) error {
	if b.Secrets.Values == nil {
		return nil
	}
	out, err := run("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", "--ignore-submodules=all", "HEAD")
	if err != nil {
		return git.SandboxFault(err, "worktree_unreadable", "Reading what is staged")
	}
	var ask strings.Builder
	var names []string
	for _, r := range git.ParseRaw(out) {
		if !git.IsCommitID(r.NewOID) || r.NewMode == "160000" || r.Status == "D" {
			continue
		}
		if secretfiles.Value(b.Secrets, []byte(r.Path)) {
			return secretfiles.StagedValue(secretfiles.Masked(b.Secrets, r.Path))
		}
		ask.WriteString(r.NewOID + "\n")
		names = append(names, r.Path)
	}
	if len(names) == 0 {
		return nil
	}
	n, hit := 0, ""
	pr, pw := io.Pipe()
	read := make(chan error, 1)
	go func() { // ends when the pipe is closed below
		err := hostgit.ReadObjects(pr, func(o hostgit.Object, content io.Reader) (bool, error) {
			found, err := b.Secrets.Values.Scan(content, b.Secrets.Hides)
			if found && n < len(names) {
				hit = names[n]
			}
			n++
			return found, err
		})
		pr.CloseWithError(io.ErrClosedPipe)
		read <- err
	}()
	res, err := b.Run(ctx, executors.SandboxCommand{Argv: b.Argv("cat-file", "--batch"), Stdin: []byte(ask.String()), Stdout: pw, MaxOutput: maxSyncPack})
	pw.Close()
	bad := <-read
	switch {
	case hit != "":
		return secretfiles.StagedValue(hit)
	case err != nil && !errors.Is(err, io.ErrClosedPipe):
		return err
	case bad != nil || res.ExitCode != 0:
		return git.SandboxFault(errors.Join(bad, &git.CommandError{Sub: "cat-file", Result: res}), "worktree_unreadable", "Reading what is staged")
	}
	return nil
}
