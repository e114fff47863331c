package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/locks"
)

// Setup is the name of a project's setup script, which only Parawork starts.
const Setup = "setup"

// Settings are the configuration of one agent in config.json.
type Settings struct {
	Enabled     bool
	Name        string            // display name; "" = the adapter's
	Command     string            // program to run; "" = the adapter's
	DefaultArgs []string          // put before everything a session adds
	Env         map[string]string // on top of the adapter's
	Permissions string            // AllPermissions: the default where the sandbox isolates
	Screen      []ScreenRule      // rules for reading its state from its screen, on top of the built-in ones

	// Only for agents that are not built in.
	Prompt              Delivery // "" = PromptPaste
	PromptFlag          string   // with PromptArgument: precedes the prompt, in one word with it when it ends with "="
	Install             string   // the command that installs it
	ConversationArgs    []string // for a new conversation; {conversation} is an ID chosen by Parawork
	ConversationPattern string   // a regular expression that finds the ID in the output
	ResumeArgs          []string // to continue a conversation; may hold {conversation}
	Interrupt           []string // keys that stop its current work; none = Ctrl+C
	InterruptName       string   // display name of Interrupt
	AccountEnv          string   // the variable an account's key goes into; "" = it takes no account
	BaseURLEnv          string   // and its address
	AccountAPI          string   // the API it speaks: AnthropicAPI or OpenAIAPI; "" = one the model gateway does not support
	PermissionArgs      []string // start it with all permissions; none = it does not have the mode
}

// Info describes an agent on this server.
type Info struct {
	Agent     string
	Name      string
	Enabled   bool
	Installed bool
	Path      string // absolute, "" when not installed
	Version   string
	Install   string // the command that installs it, "" when there is none
	Accounts  bool   // the agent talks to a model and takes an account

	Permissions bool // it can be started with all permissions
}

// Config configures a Registry.
type Config struct {
	Agents       map[string]Settings // by name; a built-in agent that is not named here is enabled with its defaults
	HomesDir     string              // absolute: private homes, one folder per user
	WorktreesDir string              // absolute: root of all worktrees, trusted as a whole
	SandboxesDir string              // absolute: what isolated workspaces own, with a folder "home" each; "" = none
	Paths        []string            // absolute: what config.json mounts, in addition, into sandboxes that use programs of this server
	UserHome     string              // home of the server's own user, read for existing logins; "" = none
	Client       *http.Client        // asks an account's address whether a key is valid; nil = no requests are made
	LookPath     func(string) (string, error)
	Now          func() time.Time
	Log          *slog.Logger
}

// Registry knows the configured agents. Safe for concurrent use.
type Registry struct {
	cfg      Config
	adapters map[string]adapter
	screens  map[string]*ScreenRules // of agents with rules in config.json
	order    []string
	detect   *detector
	// turns serializes edits of one home behind a guest. Only this server writes presets there, for a sandbox has one owner.
	turns locks.Keyed
}

// New returns a Registry. It looks up nothing and writes nothing yet.
func New(cfg Config) (*Registry, error) {
	if !filepath.IsAbs(cfg.HomesDir) || !filepath.IsAbs(cfg.WorktreesDir) {
		return nil, errors.New("agents: HomesDir and WorktreesDir must be absolute")
	}
	if cfg.LookPath == nil {
		cfg.LookPath = exec.LookPath
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Registry{cfg: cfg, screens: map[string]*ScreenRules{}, adapters: map[string]adapter{Setup: shell{}}}
	for _, a := range builtin {
		name := a.facts().agent
		r.adapters[name] = a
		r.order = append(r.order, name)
	}
	r.detect = &detector{cfg: cfg, seen: map[string]found{}}
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		if name == Setup || name == "" || strings.ContainsAny(name, "/\\ \t\n") {
			return nil, fault.New(fault.Invalid, "invalid_config", "agents.%q: choose another name, without spaces and slashes.", name)
		}
		s := cfg.Agents[name]
		switch s.Prompt {
		case "", PromptArgument, PromptPaste, PromptNone:
		default:
			return nil, fault.New(fault.Invalid, "invalid_config", "agents.%s.prompt is %q; it must be argument, paste or none.", name, s.Prompt)
		}
		if _, known := r.adapters[name]; known {
			if err := r.setScreen(name, s.Screen); err != nil {
				return nil, err
			}
			continue
		}
		own, err := newCustom(name, s)
		if err != nil {
			return nil, err
		}
		r.adapters[name] = own
		r.order = append(r.order, name)
		if err := r.setScreen(name, s.Screen); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Registry) settings(name string) Settings {
	s, ok := r.cfg.Agents[name]
	if !ok {
		s.Enabled = true
	}
	return s
}

// List returns every agent, in the order people should see them. It runs installed programs to get their version, which takes
// part of a second the first time and is cached until the program changes.
func (r *Registry) List(ctx context.Context) []Info {
	out := make([]Info, len(r.order))
	done := make(chan struct{})
	for i, name := range r.order {
		go func() {
			out[i] = r.Info(ctx, name)
			done <- struct{}{}
		}()
	}
	for range r.order {
		<-done
	}
	return out
}

// Info describes one agent; of an unknown one it returns the name alone.
func (r *Registry) Info(ctx context.Context, name string) Info {
	a, ok := r.adapters[name]
	if !ok {
		return Info{Agent: name, Name: name}
	}
	f, s := a.facts(), r.settings(name)
	info := Info{Agent: name, Name: r.Name(name), Enabled: s.Enabled, Install: f.installing(), Accounts: f.accounts, Permissions: f.permissions}
	if name == Command || name == Setup || f.hosted {
		info.Installed = true
		return info
	}
	if got := r.detect.find(ctx, r.program(name), f.version, f.recipe.Env); got.path != "" {
		info.Installed, info.Path, info.Version = true, got.path, got.version
	}
	return info
}

// Name returns the agent's display name.
func (r *Registry) Name(name string) string {
	if s := r.settings(name); s.Name != "" {
		return s.Name
	}
	if name == Setup {
		return "Setup script"
	}
	if a, ok := r.adapters[name]; ok {
		return a.facts().name
	}
	return name
}

func (r *Registry) program(name string) string {
	if s := r.settings(name); s.Command != "" {
		return s.Command
	}
	return r.adapters[name].facts().program()
}

// Check reports whether the agent can be started: otherwise it returns a fault with a stable code that says how to fix it.
func (r *Registry) Check(name string, in *Inside) error {
	_, err := r.check(name, in)
	return err
}

// check returns the program to run. Nothing is known in advance about a sandbox with its own programs: see NotFound.
func (r *Registry) check(name string, in *Inside) (program string, err error) {
	a, ok := r.adapters[name]
	if !ok || name == Setup {
		return "", fault.New(fault.Invalid, "agent_unknown", "There is no agent %q. GET /api/v1/teams/{team}/agents lists them; config.json can add more.", name)
	}
	if !r.settings(name).Enabled {
		return "", fault.New(fault.Conflict, "agent_disabled", "%s is turned off in config.json (agents.%s.enabled).", r.Name(name), name)
	}
	if name == Command || a.facts().hosted {
		return "", nil
	}
	want := r.program(name)
	if in != nil && !in.Host {
		if r.knows(name) {
			want = filepath.Base(want) // a path of this server means nothing there
		}
		return want, nil
	}
	path, err := r.cfg.LookPath(want)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		install := a.facts().installing()
		cure := "Check agents." + name + ".command in config.json and the server's PATH."
		if install != "" {
			cure = "Install it on the server with: " + install
		}
		return "", fault.Wrap(err, fault.Conflict, "agent_not_installed", "%s was not found on the server (program %q). %s", r.Name(name), want, cure).
			With("agent", name).With("program", want).With("install", install)
	}
	if in != nil {
		seen, _, ok := r.inside(name)
		if !ok {
			return "", fault.New(fault.Conflict, "agent_not_visible",
				"%s is in a folder of the server that isolated sandboxes do not see (%q). Install it for all users, below /usr/local or /opt.", r.Name(name), path).With("agent", name)
		}
		return seen, nil
	}
	return path, nil
}

// knows reports whether the agent is built in.
func (r *Registry) knows(name string) bool {
	_, custom := r.adapters[name].(interface{ described() })
	return !custom
}

// Lacks reports, without asking the sandbox, whether an agent's program is missing in it: why, as text, "" when it is not
// missing; known reports whether this could be determined. program is what runs there, in a sandbox with its own programs. in is
// the sandbox; programs are those it reported.
func (r *Registry) Lacks(name string, in *Inside, programs map[string]bool) (program, why string, known bool) {
	program, err := r.check(name, in)
	switch code := fault.CodeOf(err); {
	case code == "agent_not_installed" || code == "agent_not_visible":
		return "", fault.Words(err, err.Error()), true
	case err != nil:
		return "", "", false
	case in == nil || in.Host || r.Hosted(name):
		return "", "", true
	}
	there, known := programs[program]
	if !known || there {
		return program, "", known
	}
	return program, r.NotFound(name, in), true
}

// Install returns how an agent's program is installed, "" when that is unknown.
func (r *Registry) Install(name string) string {
	if a, ok := r.adapters[name]; ok {
		return a.facts().installing()
	}
	return ""
}

// NotFound explains that the agent's program is not in a sandbox, and what to do about it.
func (r *Registry) NotFound(name string, in *Inside) string {
	a, ok := r.adapters[name]
	switch {
	case !ok || name == Command || name == Setup:
		return "the program was not found in this sandbox"
	case in != nil && in.Host:
		return r.Name(name) + " was installed on the server after this sandbox was created. Destroy the sandbox: the next one has it."
	}
	if in != nil && in.Machine {
		words := r.Name(name) + " is not on this machine, or sandboxes there do not see it."
		if install := a.facts().installing(); install != "" {
			words += " Install it there, for all users, with: " + install + "."
		}
		return words + " Programs in another folder can be mounted with \"paths\" in the machine's runner.json."
	}
	words := r.Name(name) + " is not in this sandbox's image."
	if install := a.facts().installing(); install != "" {
		return words + " Add it to the image with: " + install
	}
	return words + " Put the program " + strconv.Quote(filepath.Base(r.program(name))) + " into it."
}

// Plan checks the agent, prepares the user's private home for it, and describes how to start it. Errors: agent_unknown,
// agent_disabled, agent_not_installed, existing_login_missing, invalid_command.
func (r *Registry) Plan(name string, l Launch) (Plan, error) {
	program, err := r.check(name, l.Inside)
	if err == nil {
		err = r.CheckPermissions(name, l.Permissions)
	}
	if err != nil {
		return Plan{}, err
	}
	s := r.settings(name)
	l.program, l.args = program, s.DefaultArgs
	home, done, err := r.home(l)
	if err != nil {
		return Plan{}, err
	}
	defer done()
	f := r.adapters[name].facts()
	if l.home, err = r.accountHome(home, l.Account, f, l.Inside != nil); err != nil {
		return Plan{}, err
	}
	p, err := r.adapters[name].plan(l)
	if err != nil {
		return Plan{}, err
	}
	env := l.home.env(l)
	r.pathInside(env, l.Inside)
	maps.Copy(env, f.recipe.Env)
	maps.Copy(env, p.Env)
	maps.Copy(env, s.Env)
	p.Env = env
	p.showGateway(l.Account.Gateway)
	p.ByKey = !f.hosted && l.Account.Gateway == nil && l.Account.keyed() && !strings.HasPrefix(l.Account.Secret, subscriptionToken)
	return p, nil
}

// SetupPlan describes how to run a project's setup script: with sh -e, or with the interpreter its first line names.
func (r *Registry) SetupPlan(script string, l Launch) (Plan, error) {
	home, done, err := r.home(l)
	if err != nil {
		return Plan{}, err
	}
	defer done()
	env := home.env(l)
	r.pathInside(env, l.Inside)
	return Plan{Argv: setupArgv(script), Env: env, Prompt: PromptNone}, nil
}

// Read interprets a signal of the agent's terminal.
func (r *Registry) Read(name string, s Signal) Hint {
	a, ok := r.adapters[name]
	if !ok {
		return Hint{}
	}
	h := a.read(s)
	h.Source = s.Kind.source()
	return h
}

// Explicit reports whether the agent's signals report when it works and when it is idle.
func (r *Registry) Explicit(name string) bool {
	a, ok := r.adapters[name]
	return ok && a.facts().explicit
}

// Finds reports whether FindConversation can ever return an ID for the agent.
func (r *Registry) Finds(name string) bool {
	_, ok := r.adapters[name].(finder)
	return ok
}

// FindConversation returns the agent's ID of a conversation that has begun, "" when none is found yet.
func (r *Registry) FindConversation(name string, f Find) (string, error) {
	a, ok := r.adapters[name].(finder)
	if !ok {
		return "", nil
	}
	home, done, err := r.home(Launch{UserID: f.UserID, Inside: f.Inside})
	if err != nil {
		return "", err
	}
	defer done()
	return a.find(home, f)
}

// Forget removes the login an account left behind on this server: in every isolated workspace, and in the home of a user, "" = of
// everybody who used it. What all accounts share, above all conversations, stays.
func (r *Registry) Forget(name, userID string, a Account) error {
	adapter, ok := r.adapters[name]
	if !ok || !plainName(a.ID) {
		return nil
	}
	if a.InHome && a.Kind == APIKey {
		return nil // the login there was typed in a terminal, and does not belong to the key
	}
	if err := r.forgetInBoxes(a); err != nil {
		return err
	}
	root, err := homedir.Open(r.cfg.HomesDir) // agents write in homes: no link may lead out of them
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forgetting a login: %w", err)
	}
	defer root.Close()
	users := []string{userID}
	if userID == "" {
		entries, err := os.ReadDir(r.cfg.HomesDir)
		if err != nil {
			return fmt.Errorf("forgetting a login: %w", err)
		}
		users = users[:0]
		for _, e := range entries {
			users = append(users, e.Name())
		}
	}
	var all error
	for _, u := range users {
		if !plainName(u) {
			continue
		}
		if !a.InHome {
			all = errors.Join(all, root.RemoveAll(path.Join(u, accountsDir, a.ID)))
		} else if login := adapter.facts().login; login != "" {
			for _, name := range []string{login, login + ".copied"} {
				if err := root.Remove(path.Join(u, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					all = errors.Join(all, err)
				}
			}
		}
	}
	if all != nil {
		return fmt.Errorf("forgetting a login: %w", all)
	}
	return nil
}

// forgetInBoxes removes the folder of an account from the home of every isolated workspace on this server.
func (r *Registry) forgetInBoxes(a Account) error {
	sandboxes, err := os.ReadDir(r.cfg.SandboxesDir)
	if r.cfg.SandboxesDir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forgetting a login: %w", err)
	}
	var all error
	for _, b := range sandboxes {
		home, err := homedir.Open(filepath.Join(r.cfg.SandboxesDir, b.Name(), "home"))
		if err != nil {
			continue // a workspace that has no home yet
		}
		all = errors.Join(all, home.RemoveAll(path.Join(accountsDir, a.ID)), home.Close())
	}
	if all != nil {
		return fmt.Errorf("forgetting a login: %w", all)
	}
	return nil
}

// plainName reports whether s can name one file in a folder.
func plainName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\\\x00")
}

// AccountCheck returns an error where an agent is unknown or takes no account; nil: it takes one.
func (r *Registry) AccountCheck(name string) error {
	if _, ok := r.adapters[name]; !ok || name == Setup {
		return fault.New(fault.Invalid, "agent_unknown", "There is no agent %q. GET /api/v1/teams/{team}/agents lists them; config.json can add more.", name).With("field", "agent")
	}
	if !r.TakesAccount(name) {
		return fault.New(fault.Invalid, "agent_takes_no_account", "%s works without an account.", r.Name(name)).With("field", "agent")
	}
	return nil
}

// TakesAccount reports whether the agent talks to a model and takes an account.
func (r *Registry) TakesAccount(name string) bool {
	a, ok := r.adapters[name]
	return ok && a.facts().accounts
}
