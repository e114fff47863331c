package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/internal/page"
)

// list prints users or teams, newest first.
func (p program) list(ctx context.Context, name string, args []string) error {
	fs, file := p.adminFlags(name)
	search := fs.String("search", "", "")
	svc, done, err := p.openWith(ctx, fs, file, args)
	if err != nil {
		return err
	}
	defer done()
	out := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for cursor := ""; ; {
		pg := page.Page{Limit: page.MaxLimit, Cursor: cursor}
		if name == "list-teams" {
			cursor, err = printTeams(ctx, out, svc, *search, pg)
		} else {
			cursor, err = printUsers(ctx, out, svc, *search, pg)
		}
		if err != nil || cursor == "" {
			break
		}
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

func printUsers(ctx context.Context, out *tabwriter.Writer, svc *instance.Instance, search string, pg page.Page) (string, error) {
	all, next, err := svc.Directory.Users(ctx, search, pg)
	if pg.Cursor == "" {
		fmt.Fprintln(out, "EMAIL\tNAME\tTEAMS\tLAST SEEN\tNOTES")
	}
	for _, i := range all {
		var teams, notes []string
		for _, m := range i.Memberships {
			teams = append(teams, m.Team.Slug+" ("+string(m.Role)+")")
		}
		for _, n := range []struct {
			holds bool
			word  string
		}{{i.User.Operator, "operator"}, {i.User.SuspendedAt != 0, "suspended"}, {i.SecondFactor, "second factor"}, {!i.HasPassword, "no password"}} {
			if n.holds {
				notes = append(notes, n.word)
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", i.User.Email, i.User.Name, strings.Join(teams, ", "), whenOf(i.LastSeenAt), strings.Join(notes, ", "))
	}
	return next, err
}

func printTeams(ctx context.Context, out *tabwriter.Writer, svc *instance.Instance, search string, pg page.Page) (string, error) {
	all, next, err := svc.Directory.Teams(ctx, search, pg)
	if pg.Cursor == "" {
		fmt.Fprintln(out, "TEAM\tNAME\tMEMBERS\tOWNERS\tWORKSPACES\tSANDBOXES\tNOTES")
	}
	for _, i := range all {
		var owners, notes []string
		for _, u := range i.Owners {
			owners = append(owners, u.Email)
		}
		if i.Team.SuspendedAt != 0 {
			notes = append(notes, "suspended")
		}
		if i.Team.SecondFactor {
			notes = append(notes, "asks for a second factor")
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", i.Team.Slug, i.Team.Name, i.Members, strings.Join(owners, ", "), i.Workspaces, i.Sandboxes, strings.Join(notes, ", "))
	}
	return next, err
}

// changeUser does one thing to one user.
func (p program) changeUser(ctx context.Context, name string, args []string) error {
	fs, file := p.adminFlags(name)
	email := fs.String("email", "", "")
	no := new(bool)
	if name == "make-operator" {
		no = fs.Bool("no", false, "")
	}
	keep := new(bool)
	if name == "reset-factors" {
		keep = fs.Bool("keep-tokens", false, "")
	}
	svc, done, err := p.openWith(ctx, fs, file, args, "email")
	if err != nil {
		return err
	}
	defer done()
	u, err := svc.Directory.UserByEmail(ctx, *email)
	if err != nil {
		return err
	}
	words := ""
	switch name {
	case "suspend-user":
		_, err = svc.Directory.SuspendUser(ctx, accounts.Actor{}, u.ID)
		words = "is suspended: login sessions and tokens have ended; what runs for the user is saved and ended within a minute where the server runs"
	case "restore-user":
		_, err = svc.Directory.RestoreUser(ctx, u.ID)
		words = "may sign in again"
	case "make-operator":
		operator := !*no
		_, err = svc.Directory.UpdateUser(ctx, u.ID, directory.UserChange{Operator: &operator})
		if words = "is an operator now"; *no {
			words = "is no operator any more"
		}
	case "reset-factors":
		_, err = svc.Signin.ResetFactors(ctx, u.ID, *keep)
		if words = "has no second factor any more, and is signed out everywhere; API tokens have ended"; *keep {
			words = "has no second factor any more, and is signed out everywhere; API tokens stay"
		}
	case "reset-link":
		return p.resetLink(ctx, svc, *file, u)
	}
	if err != nil {
		return err
	}
	if err := svc.Notify(ctx, audit.Instance, "user."+strings.ReplaceAll(strings.TrimSuffix(name, "-user"), "-", "_"), "user", u.ID, u.Email); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s %s\n", u.Email, words)
	return nil
}

// resetLink prints a link by which a user chooses a password.
func (p program) resetLink(ctx context.Context, svc *instance.Instance, file string, u accounts.User) error {
	cfg, err := p.config(file)
	if err != nil {
		return err
	}
	base := cfg.Server.PublicURL
	if base == "" {
		base = "http://" + cfg.Server.Listen
	}
	token, expires, mailed, err := svc.Signin.ResetLink(ctx, "", u.ID, false)
	if err != nil {
		return err
	}
	if err := svc.Notify(ctx, audit.Instance, "user.reset_link", "user", u.ID, u.Email); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s\n", accounts.Link(base, "reset", token))
	fmt.Fprintf(p.stderr, "%s can choose a new password with this link, once, until %s.\n", u.Email, whenOf(expires))
	if mailed {
		fmt.Fprintln(p.stderr, "A running server also mails it to the user.")
	}
	return nil
}

// changeTeam suspends or restores a team.
func (p program) changeTeam(ctx context.Context, name string, args []string) error {
	fs, file := p.adminFlags(name)
	slug := fs.String("team", "", "")
	svc, done, err := p.openWith(ctx, fs, file, args, "team")
	if err != nil {
		return err
	}
	defer done()
	t, err := svc.FindTeam(ctx, *slug)
	if err != nil {
		return err
	}
	words := "works again"
	if name == "suspend-team" {
		_, err = svc.Directory.SuspendTeam(ctx, t.ID)
		words = "is suspended: nobody can work in it; what runs for it is saved and ended within a minute where the server runs"
	} else {
		_, err = svc.Directory.RestoreTeam(ctx, t.ID)
	}
	if err != nil {
		return err
	}
	if err := svc.Notify(ctx, audit.Instance, "team."+strings.TrimSuffix(name, "-team"), "team", t.ID, t.Slug); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "team %s %s\n", t.Slug, words)
	return nil
}

func (p program) addMember(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("add-member")
	email, slug, role := fs.String("email", "", ""), fs.String("team", "", ""), fs.String("role", string(accounts.Member), "")
	svc, done, err := p.openWith(ctx, fs, file, args, "email", "team")
	if err != nil {
		return err
	}
	defer done()
	t, err := svc.FindTeam(ctx, *slug)
	if err != nil {
		return err
	}
	u, err := svc.Directory.UserByEmail(ctx, *email)
	if err != nil {
		return err
	}
	return p.join(ctx, svc, u, t, *slug, accounts.Role(*role))
}
