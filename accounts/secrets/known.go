package secrets

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/redact"
)

// KnownFile is a file of a secret that was written for a session.
type KnownFile struct {
	Path          string // below the worktree; "" = below the home
	Sum           string // sha256 hex
	Blob, Blob256 string // git's names of it, "" = it is empty
}

// Known is what a workspace was ever given of secrets: what its files, commits and names must not show. It does not change.
type Known struct {
	Files  []KnownFile
	Find   *redact.Finder // of the values that are long enough to be looked for; nil = none
	Masker *redact.Masker // of all values; only its Text is used, which is safe for concurrent use
}

var nothingKnown = &Known{Masker: redact.New()}

// Remember notes, for as long as there is the workspace, what a session or command in it is about to be given: before it is given.
// Errors: secret_changed.
func (s *Service) Remember(ctx context.Context, teamID, workspaceID string, files []KnownFile, uses []Use) error {
	uses = slices.DeleteFunc(slices.Clone(uses), func(u Use) bool { return u.Sealed == "" }) // of an earlier version
	if len(files)+len(uses) == 0 {
		return nil
	}
	fresh, err := s.cfg.Store.RememberSecrets(ctx, teamID, workspaceID, files, uses, s.now())
	if fresh || err != nil {
		s.known.forget(workspaceID)
	}
	if err != nil {
		return fmt.Errorf("noting which secrets %s is given: %w", workspaceID, err)
	}
	return nil
}

// Pass has a workspace know what another of the team was given, before it gets files of it.
func (s *Service) Pass(ctx context.Context, teamID, from, to string) error {
	files, uses, err := s.cfg.Store.KnownSecrets(ctx, from)
	if err != nil {
		return fmt.Errorf("reading the secrets of %s: %w", from, err)
	}
	return s.Remember(ctx, teamID, to, files, uses)
}

// Known returns every secret that a workspace ever received. A caller that gets an error must not show any output.
func (s *Service) Known(ctx context.Context, workspaceID string) (*Known, error) {
	k, turn := s.known.get(workspaceID)
	if k != nil {
		return k, nil
	}
	files, uses, err := s.cfg.Store.KnownSecrets(ctx, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of %s: %w", workspaceID, err)
	}
	k = nothingKnown
	if len(files)+len(uses) > 0 {
		var find, mask []string
		for _, u := range uses {
			value, err := s.value(ctx, u)
			if err != nil {
				return nil, fmt.Errorf("reading the secrets of %s: %w", workspaceID, err)
			}
			find = append(find, lookedFor(u.Kind, value)...)
			mask = append(mask, masksOf(u.Kind, value)...)
		}
		k = &Known{Files: files, Find: redact.NewFinder(find...), Masker: redact.New(mask...)}
	}
	s.known.put(workspaceID, k, turn)
	return k, nil
}

// value opens what a workspace was given; "" where it cannot be read.
func (s *Service) value(ctx context.Context, u Use) (string, error) {
	of := accounts.OfTeam(u.TeamID)
	if u.UserID != "" {
		of = accounts.OfUser(u.UserID)
	}
	value, err := s.cfg.Vault.OpenSecret(ctx, u.Sealed, of, purpose(u.ID))
	if Unreadable(err) { // sealed with a key that is gone: nobody is given it any more either
		s.cfg.Log.WarnContext(ctx, "secret value of a workspace cannot be read, so its output is not searched for it", "secret_id", u.ID)
		return "", nil
	}
	return value, err
}

// InAnswers finds, in answers of JSON, the values of a team: those of its secrets and its projects', and what its workspaces were ever given.
func (s *Service) InAnswers(ctx context.Context, teamID string) (*redact.Finder, error) {
	f, ok, turn := s.known.team(teamID)
	if ok {
		return f, nil
	}
	uses, err := s.cfg.Store.TeamKnownSecrets(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of team %s: %w", teamID, err)
	}
	now, err := s.cfg.Store.TeamSessionSecrets(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of team %s: %w", teamID, err)
	}
	for _, k := range now {
		uses = append(uses, Use{ID: k.ID, Sealed: k.SecretID, TeamID: k.TeamID, Kind: k.Kind})
	}
	var find []string
	opened := map[string]bool{}
	for _, u := range uses {
		if opened[u.Sealed] {
			continue
		}
		opened[u.Sealed] = true
		value, err := s.value(ctx, u)
		if err != nil {
			return nil, fmt.Errorf("reading the secrets of team %s: %w", teamID, err)
		}
		find = append(find, lookedFor(u.Kind, value)...)
	}
	f = redact.NewJSONFinder(find...)
	s.known.putTeam(teamID, f, turn)
	return f, nil
}

// knownCache has the newest of what Known read.
type knownCache struct {
	mu    sync.Mutex
	teams map[string]*redact.Finder // by team: see InAnswers
	of    map[string]*Known
	turn  int
}

// maxKnown bounds how many workspaces are in memory.
const maxKnown = 512

func (c *knownCache) get(id string) (*Known, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id], c.turn
}

// put keeps what was read from turn on, unless something was forgotten meanwhile.
func (c *knownCache) put(id string, k *Known, turn int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != turn {
		return
	}
	if len(c.of) >= maxKnown {
		for other := range c.of { // any of them: it is read again
			delete(c.of, other)
			break
		}
	}
	c.of[id] = k
}

func (c *knownCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	delete(c.of, id)
	clear(c.teams)
}

// forgetTeams forgets what was read of teams.
func (c *knownCache) forgetTeams() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	clear(c.teams)
}

func (c *knownCache) team(id string) (*redact.Finder, bool, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.teams[id]
	return f, ok, c.turn
}

func (c *knownCache) putTeam(id string, f *redact.Finder, turn int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != turn {
		return
	}
	if len(c.teams) >= maxKnown {
		clear(c.teams)
	}
	c.teams[id] = f
}

// named is the left side of NAME=value and "name": "value".
var named = regexp.MustCompile(`^(?:export\s+)?["']?[A-Za-z_][A-Za-z0-9_.-]*["']?\s*[=:]`)

// lookedFor returns what of a value is looked for in files and commits: the whole value, and of one of several lines what each line sets, or
// the line. Comments, and lines that say where a key begins, are in other files too.
func lookedFor(k Kind, value string) []string {
	value = strings.TrimSpace(value)
	var out []string
	if !plainAddress(value) {
		out = append(out, value)
	}
	out = append(out, passwordIn(value)...)
	if k != File && !strings.Contains(value, "\n") {
		return out
	}
	for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if at := npmToken.FindStringIndex(line); at != nil {
			line = line[at[1]:]
		}
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "-----") {
			continue
		}
		left := named.FindString(line)
		if left != "" && len(strings.TrimLeft(line[len(left):], "= ")) > 2 { // a line of base64 may end in ==
			line = line[len(left):]
		} else if words := strings.Fields(line); slices.Contains(words, "password") { // a netrc
			line = words[min(slices.Index(words, "password")+1, len(words)-1)]
		}
		line = strings.Trim(strings.TrimSuffix(strings.TrimSpace(line), ","), "\"' \t")
		if len(line) >= redact.MinFound && utf8.ValidString(line) && !plainAddress(line) && !hostAlone.MatchString(line) && !(line == "service_account" && strings.Contains(left, "type")) {
			out = append(append(out, line), passwordIn(line)...)
		}
	}
	return out
}

// npmToken is how a line of an .npmrc begins that holds a token: it looks like a comment.
var npmToken = regexp.MustCompile(`^//[^\s=]+:_[A-Za-z]+\s*=\s*`)

// hostAlone matches a service's host, which appears next to secrets in settings files and in code.
var hostAlone = regexp.MustCompile(`^(localhost|127\.0\.0\.1|[a-z][a-z0-9-]{0,30}(\.[a-z][a-z0-9-]{0,30}){0,4}\.[a-z]{2,8})(:[0-9]{1,5})?$`)

// passwordIn finds the password in a service's address, which is a secret too.
func passwordIn(value string) []string {
	if !strings.Contains(value, "://") || !strings.Contains(value, "@") || strings.ContainsAny(value, " \n\r") {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return nil
	}
	if password, ok := u.User.Password(); ok {
		return []string{password}
	}
	return []string{u.User.Username()} // a token in the place of a name
}

// plainAddress reports whether a value is the address of a service, with nothing in it that only some may know.
func plainAddress(v string) bool {
	scheme, rest, ok := strings.Cut(v, "://")
	if !ok || scheme == "" || strings.ContainsAny(rest, "@?&=") {
		return false
	}
	_, path, _ := strings.Cut(rest, "/")
	return len(path) < 16
}
