package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// DefaultCommit is the head of a project's default branch.
func (s *Repo) DefaultCommit(ctx context.Context, projectID string) (string, error) {
	p, err := s.UsableProject(ctx, projectID)
	if err != nil {
		return "", err
	}
	commit, _, err := s.ResolveBase(ctx, p, p.DefaultBranch)
	return commit, err
}

// UsableProject returns a project whose repository exists.
func (s *Repo) UsableProject(ctx context.Context, projectID string) (workspaces.Project, error) {
	p, err := s.records.Project(ctx, projectID)
	if err != nil {
		return p, err
	}
	if p.State != workspaces.ProjectReady {
		return p, fault.New(fault.Conflict, "project_not_ready", "The project %q is not ready yet.", p.Name)
	}
	return p, nil
}

// CommitFiles returns the files of a commit below dir ("" for all), links and submodules among them.
func (s *Repo) CommitFiles(ctx context.Context, projectID, commit, dir string) ([]hostgit.TreeFile, error) {
	p, err := s.UsableProject(ctx, projectID)
	if err != nil {
		return nil, err
	}
	if !IsCommitID(commit) {
		return nil, fault.New(fault.Invalid, "invalid_commit", "%q is no commit.", commit)
	}
	args := []string{"ls-tree", "-r", "-z", "-l", "--full-tree", commit}
	if dir != "" {
		if out, err := inProcess(ctx, p.GitDir, func(r *reader) ([]hostgit.TreeFile, error) { return r.files(ctx, commit, []string{dir}, true) }); err == nil {
			return out, nil
		}
		args = append(args, "--", dir)
	}
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: args, Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
	if errors.Is(err, hostgit.ErrTooMuch) {
		return nil, fault.New(fault.TooLarge, "too_many_files", "The commit has more files than can be listed.")
	}
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Listing the files of "+commit)
	}
	var files []hostgit.TreeFile
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if entry == "" {
			continue
		}
		head, path, ok := strings.Cut(entry, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 4 {
			return nil, fmt.Errorf("ls-tree answered %q", entry)
		}
		mode, err := strconv.ParseUint(f[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("ls-tree answered %q: %w", entry, err)
		}
		size, _ := strconv.ParseInt(f[3], 10, 64) // "-" for a submodule
		files = append(files, hostgit.TreeFile{Path: path, Mode: uint32(mode), Size: size, OID: f[2]})
	}
	return files, nil
}

// CommitBlobs passes the contents of files to fn, one after the other. fn need not read all of one; an error of fn stops the reading.
func (s *Repo) CommitBlobs(ctx context.Context, projectID string, files []hostgit.TreeFile, fn func(hostgit.TreeFile, io.Reader) error) error {
	p, err := s.UsableProject(ctx, projectID)
	if err != nil {
		return err
	}
	return s.blobsOf(ctx, p.GitDir, files, fn)
}

func (s *Repo) blobsOf(ctx context.Context, gitDir string, files []hostgit.TreeFile, fn func(hostgit.TreeFile, io.Reader) error) error {
	if few, err := inProcess(ctx, gitDir, func(r *reader) ([][]byte, error) { return r.blobs(ctx, files) }); err == nil {
		for i, content := range few {
			if err := fn(files[i], bytes.NewReader(content)); err != nil {
				return err
			}
		}
		return nil
	}
	var ask strings.Builder
	for _, f := range files {
		ask.WriteString(f.OID + "\n")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	ran := make(chan error, 1)
	go func() { // ends with git, which ends with ctx or when its output is closed
		_, err := s.git.Run(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(ask.String()), Stdout: w})
		w.CloseWithError(err)
		ran <- err
	}()
	err := readBatch(bufio.NewReaderSize(r, 64<<10), files, fn)
	cancel()
	_ = r.Close()
	gerr := <-ran
	if err != nil && errors.Is(err, io.ErrUnexpectedEOF) && gerr != nil {
		return GitFault(gerr, fault.Unavailable, "repository_unreadable", "Reading files of the repository")
	}
	return err
}

// readBatch parses the output of cat-file --batch.
func readBatch(r *bufio.Reader, files []hostgit.TreeFile, fn func(hostgit.TreeFile, io.Reader) error) error {
	for _, f := range files {
		head, err := r.ReadString('\n')
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		parts := strings.Fields(head)
		if len(parts) != 3 || parts[0] != f.OID || parts[1] != "blob" {
			return fmt.Errorf("cat-file answered %q for %s", strings.TrimSpace(head), f.OID)
		}
		size, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil || size != f.Size {
			return fmt.Errorf("cat-file answered %q for %s of %d bytes", strings.TrimSpace(head), f.OID, f.Size)
		}
		body := io.LimitReader(r, size)
		if err := fn(f, body); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		if b, err := r.ReadByte(); err != nil || b != '\n' {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}
