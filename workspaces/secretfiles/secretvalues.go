package secretfiles

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Bounds of searching a repository for secrets.
const (
	secretsTime = 10 * time.Minute // in all commits that are fetched, pushed or merged
	baseTime    = 20 * time.Second // in the base, for one value
	maxOpen     = 4096             // cached results about values in bases
)

// opens caches which values bases expose.
type opens struct {
	mu sync.Mutex
	of map[[32]byte]bool
}

// shownByBase reports whether the workspace's base has a value in one of its files: everybody who sees the workspace can read it there. It
// is then a setting rather than a secret, such as the name of a region, and must not prevent fetching commits. If it cannot be determined,
// the value is a secret.
func (s *Service) shownByBase(ctx context.Context, workspaceID, value string) bool {
	if strings.ContainsAny(value, "\n\x00") { // git searches by line
		return false
	}
	p, err := s.repo.ProjectOf(ctx, workspaceID)
	if err != nil {
		return false
	}
	base, err := s.repo.BaseCommit(ctx, workspaceID)
	if err != nil || !git.IsCommitID(base) {
		return false
	}
	key := sha256.Sum256([]byte(p.ID + "\x00" + base + "\x00" + value))
	s.opens.mu.Lock()
	shown, known := s.opens.of[key]
	s.opens.mu.Unlock()
	if known {
		return shown
	}
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"grep", "-q", "-a", "--fixed-strings", "-f", "-", base, "--"}, Stdin: strings.NewReader(value + "\n"), Timeout: baseTime})
	if err != nil && hostgit.ExitCode(err) != 1 {
		s.cfg.Log.WarnContext(ctx, "whether a base exposes a value could not be determined", "workspace_id", workspaceID, "error", err)
		return false
	}
	s.opens.mu.Lock()
	defer s.opens.mu.Unlock()
	if s.opens.of == nil || len(s.opens.of) >= maxOpen {
		s.opens.of = make(map[[32]byte]bool)
	}
	s.opens.of[key] = err == nil
	return err == nil
}

// secretIn searches what a rev-list walk reaches for secrets: file names, contents, names of refs and authors, messages. It describes what
// it found, "" = nothing.
func secretIn(ctx context.Context, f workspaces.SecretFiles, w hostgit.Walk) (string, error) {
	for name := range f.Paths {
		if strings.ContainsAny(name, "\n\x00") {
			continue
		}
		commit, err := w.Holding(ctx, name)
		if err != nil {
			return "", err
		}
		if commit != "" {
			return fmt.Sprintf("commit %s has the file %q of a secret", short(commit), name), nil
		}
	}
	if len(f.Blobs) == 0 && f.Values == nil {
		return "", nil
	}
	o, err := w.Find(ctx, func(o hostgit.Object, content io.Reader) (bool, error) {
		if o.Kind == "blob" && f.Blobs[o.ID] {
			return true, nil
		}
		return f.Values.Scan(content, f.Hides)
	})
	if err != nil || o.ID == "" {
		return "", err
	}
	switch o.Kind {
	case "commit":
		return fmt.Sprintf("the message or the author of commit %s contains the value of a secret", short(o.ID)), nil
	case "tag":
		return "a tag contains the value of a secret", nil
	}
	name, err := w.PathOf(ctx, o.ID)
	if err != nil {
		return "", err
	}
	if name = Masked(f, name); o.Kind == "tree" {
		return fmt.Sprintf("the name of a file in the folder %q contains the value of a secret", "/"+name), nil
	}
	return fmt.Sprintf("%q contains the value of a secret", name), nil
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// NoSecrets rejects commits that contain part of a secret. revs are those of a rev-list walk in the scratch repository; doing is the
// rejected operation, such as "pushed".
func (s *Service) NoSecrets(ctx context.Context, w workspaces.Workspace, scratch *hostgit.Scratch, doing string, revs ...string) error {
	f, err := s.SecretFiles(ctx, w.ID)
	if err != nil || !Known(f) {
		return err
	}
	what, err := secretIn(ctx, f, scratch.Walk(secretsTime, revs...))
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for secrets in the commits")
	}
	if what == "" {
		return nil
	}
	return fault.New(fault.Conflict, "commits_hold_secret", "Nothing was %s: %s. Take it out of the commits in a terminal (git rebase, or git reset and a new commit), then try again.", doing, what)
}

// CheckCommits rejects what a sandbox sent if it contains part of a secret.
func (s *Service) CheckCommits(ctx context.Context, workspaceID string, in *hostgit.Quarantine, tips, known map[string]bool, l hostgit.QuarantineLimits) error {
	f, err := s.SecretFiles(ctx, workspaceID)
	if err != nil || !Known(f) {
		return err
	}
	walk, err := in.Walk(ctx, tips, l, git.Unique(slices.Sorted(maps.Keys(known)))...)
	if err != nil {
		return err
	}
	what, err := secretIn(ctx, f, walk)
	if err != nil || what == "" {
		return err
	}
	return fault.New(fault.Conflict, "commits_hold_secret",
		"The sandbox's commits were not copied to the server: %s. Take it out of the commits there (git rm --cached and git commit --amend, or git rebase); the server then fetches them automatically.", what)
}

// StagedValue is the error that a staged file contains a secret's value.
func StagedValue(name string) error {
	return fault.New(fault.Conflict, "secret_value_staged", "%q contains the value of a secret and cannot be committed. Remove the value from the file, or leave the file out.", name).
		With("paths", []string{guest.EncodePath(name)})
}
