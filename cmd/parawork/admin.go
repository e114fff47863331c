package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"golang.org/x/term"
)

const adminUsage = `usage: parawork admin <command> [flags]

  create-user     --email E --name N [--operator] [--team SLUG [--role owner|admin|member|viewer]] --password-stdin
                  make a user; a team that does not exist is made, and the user owns it
  create-token    --email E [--name N]
                  print a new API token that acts as the user
  list-users      [--search TEXT]
  list-teams      [--search TEXT]
                  print them, newest first
  suspend-user    --email E
                  keep a user out: login sessions, tokens and sockets end, what runs for the user is saved and ended
  restore-user    --email E
                  let a suspended user in again
  suspend-team    --team SLUG
  restore-team    --team SLUG
                  the same for a team and all that runs for it
  make-operator   --email E [--no]
                  make a user an operator; with --no, an operator a user
  add-member      --email E --team SLUG [--role owner|admin|member|viewer]
                  make a user a member of a team, without asking the user
  reset-factors   --email E [--keep-tokens]
                  forget a user's authenticator app, recovery codes and passkeys, and end the user's login sessions and API tokens
  reset-link      --email E
                  print a link by which the user chooses a new password, for 24 hours
  reset-password  --email E [--keep-tokens] --password-stdin
                  set a user's password and end the user's login sessions and API tokens
  new-runner-key  --yes
                  make a new key that signs commands to members' machines; every machine must then enrol again (not while the server runs)
  rotate-key      --yes
                  make a new secret.key and seal everything that is kept sealed with it (not while the server runs)
  rotate-key      --lost [--yes]
                  go on without a secret.key that is lost: list what nobody can open any more and, with --yes, forget it
  adopt-leftovers [--end-sandboxes] [--yes]
                  after the database lost what it knew: list what is intact in its log and which workspaces lie on the disk without
                  being known; with --yes, bring them back and let the server start (not while the server runs)
                  --end-sandboxes also ends the sandboxes that run without being known, with what is only there

All take --config FILE. The server may be running meanwhile, but for new-runner-key, rotate-key and adopt-leftovers: it notices within seconds, and closes what must close. A password is read from standard input, up to the end of the line.
`

// admin works on the instance from the command line, whether the server runs or not.
func (p program) admin(ctx context.Context, args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	ctx = instance.ByCommandLine(ctx)
	switch name {
	case "create-user":
		return p.createUser(ctx, args)
	case "create-token":
		return p.createToken(ctx, args)
	case "reset-password":
		return p.resetPassword(ctx, args)
	case "new-runner-key":
		return p.newRunnerKey(ctx, args)
	case "rotate-key":
		return p.rotateKey(ctx, args)
	case "adopt-leftovers":
		return p.adoptLeftovers(ctx, args)
	case "list-users", "list-teams":
		return p.list(ctx, name, args)
	case "suspend-user", "restore-user", "make-operator", "reset-factors", "reset-link":
		return p.changeUser(ctx, name, args)
	case "suspend-team", "restore-team":
		return p.changeTeam(ctx, name, args)
	case "add-member":
		return p.addMember(ctx, args)
	case "help", "--help", "-h":
		fmt.Fprint(p.stdout, adminUsage)
		return nil
	case "":
		fmt.Fprint(p.stderr, adminUsage)
	default:
		fmt.Fprintf(p.stderr, "parawork: there is no command %q.\n\n%s", "admin "+name, adminUsage)
	}
	return errUsage
}

// adminFlags returns the flags of an admin command with the one all have.
func (p program) adminFlags(name string) (fs *flag.FlagSet, config *string) {
	return p.flagsOf("admin "+name, adminUsage)
}

// flagsOf returns the flags of a subcommand, with the flag all of them have. Wrong flags print the usage.
func (p program) flagsOf(name, usage string) (fs *flag.FlagSet, config *string) {
	fs = flag.NewFlagSet(name, flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(p.stderr, usage) }
	return fs, fs.String("config", "", "config.json")
}

// need prints which of the flags is missing.
func (p program) need(fs *flag.FlagSet, names ...string) error {
	for _, name := range names {
		if v := fs.Lookup(name).Value.String(); v == "" || v == "false" {
			fmt.Fprintf(p.stderr, "parawork: --%s is required.\n\n", name)
			fs.Usage()
			return errUsage
		}
	}
	return nil
}

// openWith reads a command's arguments, of which needed must be there, and opens the instance's accounts with the file they name.
func (p program) openWith(ctx context.Context, fs *flag.FlagSet, file *string, args []string, needed ...string) (*instance.Instance, func() error, error) {
	if err := p.parse(fs, args); err != nil {
		return nil, nil, err
	}
	if err := p.need(fs, needed...); err != nil {
		return nil, nil, err
	}
	return p.open(ctx, *file)
}

// openAlone reads the arguments of a command that must be meant, which meant checks, and opens the database while no server has the data folder,
// which done gives back. The caller closes the database.
func (p program) openAlone(ctx context.Context, fs *flag.FlagSet, file *string, args []string, meant func() error) (*config.Config, *store.DB, func(), error) {
	if err := p.parse(fs, args); err != nil {
		return nil, nil, nil, err
	}
	if err := meant(); err != nil {
		return nil, nil, nil, err
	}
	cfg, err := p.config(*file)
	if err != nil {
		return nil, nil, nil, err
	}
	lock, err := instance.LockData(cfg.DataDir)
	if err != nil {
		return nil, nil, nil, err
	}
	db, err := store.Open(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
	if err != nil {
		lock.Release()
		return nil, nil, nil, err
	}
	return cfg, db, lock.Release, nil
}

// open opens the instance's accounts.
func (p program) open(ctx context.Context, file string) (*instance.Instance, func() error, error) {
	cfg, err := p.config(file)
	if err != nil {
		return nil, nil, err
	}
	return instance.Open(ctx, cfg)
}

func (p program) createUser(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("create-user")
	email, name := fs.String("email", "", ""), fs.String("name", "", "")
	operator := fs.Bool("operator", false, "")
	slug, role := fs.String("team", "", ""), fs.String("role", "", "")
	fs.Bool("password-stdin", false, "")
	if err := p.parse(fs, args); err != nil {
		return err
	}
	if err := p.need(fs, "email", "name", "password-stdin"); err != nil {
		return err
	}
	if *role != "" && (*slug == "" || !accounts.Role(*role).Valid()) {
		fmt.Fprintln(p.stderr, "parawork: --role must be owner, admin, member or viewer, and requires --team.")
		return errUsage
	}
	password, err := p.password()
	if err != nil {
		return err
	}
	svc, done, err := p.open(ctx, *file)
	if err != nil {
		return err
	}
	defer done()
	team, err := svc.Directory.TeamBySlug(ctx, *slug)
	missing := fault.Is(err, fault.NotFound)
	if err != nil && !missing {
		return err
	}
	if *slug != "" && missing && *role != "" && *role != string(accounts.Owner) {
		return fmt.Errorf("there is no team %q. Without --role it is created, and the user owns it", *slug)
	}
	u, err := svc.Directory.CreateUser(ctx, accounts.NewUser{Email: *email, Name: *name, Password: password, Operator: *operator})
	if err != nil {
		return err
	}
	if err := svc.Notify(ctx, audit.Instance, "user.create", "user", u.ID, u.Email, "operator", strconv.FormatBool(u.Operator)); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "created user %s (%s)\n", u.Email, u.ID)
	if *slug == "" {
		return nil
	}
	return p.join(ctx, svc, u, team, *slug, accounts.Role(*role))
}

// join makes u a member of a team, and the team when it is missing (its ID is empty).
func (p program) join(ctx context.Context, svc *instance.Instance, u accounts.User, team accounts.Team, slug string, role accounts.Role) error {
	if team.ID == "" {
		team, err := svc.Directory.CreateTeam(ctx, accounts.Actor{User: u}, slug, slug)
		if err != nil {
			return err
		}
		if err := svc.Notify(ctx, audit.Instance, "team.create", "team", team.ID, team.Slug, "owner", u.Email); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "created team %s (%s), owned by %s\n", team.Slug, team.ID, u.Email)
		return nil
	}
	role = cmp.Or(role, accounts.Member)
	if _, err := svc.Directory.PutMember(ctx, team.ID, u.Email, role); err != nil {
		return err
	}
	if err := svc.Notify(ctx, team.ID, "member.add", "user", u.ID, u.Email, "role", string(role)); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s is %s of team %s\n", u.Email, role, team.Slug)
	return nil
}

func (p program) createToken(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("create-token")
	email, name := fs.String("email", "", ""), fs.String("name", "command line", "")
	svc, done, err := p.openWith(ctx, fs, file, args, "email")
	if err != nil {
		return err
	}
	defer done()
	u, err := svc.Directory.UserByEmail(ctx, *email)
	if err != nil {
		return err
	}
	t, value, err := svc.Signin.CreateToken(ctx, u.ID, *name, 0)
	if err != nil {
		return err
	}
	if err := svc.Notify(ctx, audit.Instance, "token.create", "token", t.ID, t.Name, "user", u.Email); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, value)
	return nil
}

func (p program) resetPassword(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("reset-password")
	email := fs.String("email", "", "")
	keep := fs.Bool("keep-tokens", false, "")
	fs.Bool("password-stdin", false, "")
	if err := p.parse(fs, args); err != nil {
		return err
	}
	if err := p.need(fs, "email", "password-stdin"); err != nil {
		return err
	}
	password, err := p.password()
	if err != nil {
		return err
	}
	svc, done, err := p.open(ctx, *file)
	if err != nil {
		return err
	}
	defer done()
	u, err := svc.Directory.UserByEmail(ctx, *email)
	if err != nil {
		return err
	}
	if err := svc.Signin.ResetPassword(ctx, u.ID, password, *keep); err != nil {
		return err
	}
	if err := svc.Notify(ctx, audit.Instance, "password.reset", "user", u.ID, u.Email); err != nil {
		return err
	}
	what := "all login sessions and API tokens of the user have ended"
	if *keep {
		what = "all login sessions of the user have ended, API tokens stay"
	}
	fmt.Fprintf(p.stdout, "changed the password of %s; %s\n", u.Email, what)
	return nil
}

// password reads one line from standard input; at a terminal it asks, and what is typed is not shown.
func (p program) password() (string, error) {
	if f, ok := p.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(p.stderr, "password: ")
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(p.stderr)
		if err != nil {
			return "", fmt.Errorf("reading the password: %w", err)
		}
		return string(b), nil
	}
	line, err := bufio.NewReader(io.LimitReader(p.stdin, password.Max+3)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}
