package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/migrations"
)

// notTheirs are tables with a team in them whose rows are nevertheless no team's.
var notTheirs = map[string]string{
	"api_tokens": "a person's; the team bounds what it may be used for",
}

// howTo says what to do about a statement that fails the test.
const howTo = `
Every statement on a team's table says whose rows it is about, and the scope of the work in ctx (internal/tenant) decides:
  SELECT, UPDATE, DELETE      ... WHERE id = ? AND {team}          (with an alias: {team:a}; people's own rows beside: {team|none})
  by an explicit team         ... WHERE team_id = {team?}          (the argument as for a ?, refused when it is another team's)
  a new row                   INSERT INTO t (id, team_id) VALUES (?, {team?})
  on purpose about all teams  /* every team: why */ SELECT ...
Requests have the scope of their actor's teams (the guard); loops and lookups by a secret run under tenant.All(ctx, "why").`

// TestASVS_8_4_1_EveryStatementCarriesItsTeam reads every statement of this package and of those below it.
func TestASVS_8_4_1_EveryStatementCarriesItsTeam(t *testing.T) {
	tables := teamTables(t)
	if len(tables) < 30 {
		t.Fatalf("only %d tables belong to teams: the migrations were not understood", len(tables))
	}
	seen := 0
	for _, s := range statements(t) {
		seen++
		for _, why := range judge(tables, s.text) {
			t.Errorf("%s: %s\n\t%s\n%s", s.at, why, strings.Join(strings.Fields(s.text), " "), howTo)
		}
	}
	if seen < 150 {
		t.Errorf("only %d statements were found: the reader has missed some", seen)
	}
}

func TestTheReaderOfStatements(t *testing.T) {
	tables := map[string]bool{"teams": true, "things": true, "parts": true}
	for _, good := range []string{
		`SELECT a FROM users WHERE id = ?`,
		`SELECT a FROM things WHERE id = ? AND {team}`,
		`SELECT a FROM things t JOIN parts p ON p.thing_id = t.id WHERE {team:t}`,
		`SELECT a FROM users u JOIN things t ON t.user_id = u.id WHERE t.team_id = {team?}`,
		`UPDATE teams SET name = ? WHERE id = {team?}`,
		`INSERT INTO things (id, team_id) VALUES (?, {team?}), (?, {team?})`,
		`INSERT INTO things (id, team_id) SELECT ?, p.team_id FROM parts p WHERE {team:p}`,
		`/* every team: a reason */ DELETE FROM things`,
		`SELECT (SELECT COUNT(*) FROM parts /* every team: a reason */) FROM things WHERE {team}`,
		`DELETE FROM parts WHERE workspace_id = (SELECT t.id FROM things t WHERE t.id = ? AND {team:t}) AND a = ?`,
		`SELECT a FROM things WHERE {team|none} AND id = ? ON CONFLICT DO UPDATE SET a = b`,
	} {
		if why := judge(tables, good); len(why) > 0 {
			t.Errorf("%s: %s", good, why)
		}
	}
	for _, bad := range []string{
		`SELECT a FROM things WHERE id = ?`,
		`SELECT a FROM things WHERE team_id = ?`,
		`SELECT a FROM things WHERE '{team}' = ?`,
		`SELECT a FROM things WHERE id IN (SELECT id FROM parts) AND {team}`,
		`SELECT a FROM things t WHERE {team:p}`,
		`SELECT a FROM things WHERE {teams}`,
		`INSERT INTO things (team_id, id) VALUES (?, {team?})`,
		`INSERT INTO things (id, team_id) VALUES (?, ?)`,
		`/* every team: */ DELETE FROM things`,
		`DELETE FROM things -- {team}`,
		`DELETE FROM parts WHERE workspace_id = (SELECT t.id FROM things t WHERE t.id = ?) AND {team}`,
		`SELECT (SELECT COUNT(*) FROM parts /* every team: a reason */) FROM things`,
		`SELECT a FROM users u JOIN things t ON t.user_id = u.id`,
		`UPDATE teams SET name = ? WHERE id = ?`,
	} {
		if len(judge(tables, bad)) == 0 {
			t.Errorf("%s: let through", bad)
		}
	}
}

var (
	makesTable = regexp.MustCompile(`(?s)CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)"? \((.*?)\n\);`)
	addsTeam   = regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN team_id`)
	teamColumn = regexp.MustCompile(`(?m)^\s*(team_id|workspace_id|run_id)\b`)
)

// teamTables reads from the migrations which tables hold rows of teams: by themselves or through a workspace or a run.
func teamTables(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{"teams": true}
	all, err := readMigrations(migrations.SQLite, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		for _, c := range makesTable.FindAllStringSubmatch(m.sql, -1) {
			if teamColumn.MatchString(c[2]) {
				out[c[1]] = true
			}
		}
		for _, a := range addsTeam.FindAllStringSubmatch(m.sql, -1) {
			out[a[1]] = true
		}
	}
	maps.DeleteFunc(out, func(table string, _ bool) bool { _, ok := notTheirs[table]; return ok })
	return out
}

// statement is a text with SQL in it.
type statement struct{ at, text string }

// unknown stands for what is put into a statement when the program runs.
const unknown = " \x00 "

var isSQL = regexp.MustCompile(`\b(SELECT|INSERT INTO|UPDATE|DELETE FROM)\b`)

// constants adds what n declares.
func constants(n ast.Node, to map[string]ast.Expr) {
	d, ok := n.(*ast.GenDecl)
	if !ok || d.Tok != token.CONST {
		return
	}
	for _, s := range d.Specs {
		v := s.(*ast.ValueSpec)
		for i, name := range v.Names {
			if i < len(v.Values) {
				to[name.Name] = v.Values[i]
			}
		}
	}
}

// statements finds every statement of this package and of those below it: each text in a function, with the constants in it.
func statements(t *testing.T) []statement {
	t.Helper()
	out := statementsIn(t, ".", "store")
	below, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range below {
		if d.IsDir() && d.Name() != "storetest" {
			out = append(out, statementsIn(t, d.Name(), d.Name())...)
		}
	}
	return out
}

// statementsIn finds those of the package in a folder.
func statementsIn(t *testing.T, folder, name string) []statement {
	t.Helper()
	set := token.NewFileSet()
	dir, err := parser.ParseDir(set, folder, func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]ast.Expr{}
	if dir[name] == nil {
		return nil
	}
	for _, f := range dir[name].Files {
		for _, d := range f.Decls {
			constants(d, whole)
		}
	}
	var consts map[string]ast.Expr
	var text func(e ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if e.Kind == token.STRING {
				s, _ := strconv.Unquote(e.Value)
				return s
			}
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				return text(e.X) + text(e.Y)
			}
		case *ast.ParenExpr:
			return text(e.X)
		case *ast.Ident:
			if c, ok := consts[e.Name]; ok {
				return text(c)
			}
		case *ast.CallExpr: // strings.Repeat of rows
			if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Repeat" {
				return text(e.Args[0])
			}
		}
		return unknown
	}
	var out []statement
	for _, f := range dir[name].Files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			consts = maps.Clone(whole)
			ast.Inspect(fn, func(n ast.Node) bool { constants(n, consts); return true })
			look := func(e ast.Expr) {
				if s := text(e); isSQL.MatchString(s) {
					out = append(out, statement{set.Position(e.Pos()).String(), s})
				}
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GenDecl:
					return n.Tok != token.CONST
				case *ast.BinaryExpr:
					look(n)
					return n.Op != token.ADD
				case *ast.BasicLit:
					if n.Kind == token.STRING {
						look(n)
					}
				case *ast.CallExpr: // a constant that is a whole statement
					for _, a := range n.Args {
						if id, ok := a.(*ast.Ident); ok && consts[id.Name] != nil {
							look(id)
						}
					}
				}
				return true
			})
		}
	}
	return out
}

var (
	inQuotes  = regexp.MustCompile(`'[^']*'`)
	lineNote  = regexp.MustCompile(`--[^\n]*`)
	forAll    = regexp.MustCompile(`/\* every team: [^*]{3,}\*/`)
	blockNote = regexp.MustCompile(`/\*.*?\*/`)
	piece     = regexp.MustCompile(`\b(FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+(?:AS\s+)?([a-z]\w*))?|(\x01)|((?:workspace_id|run_id) = \(SELECT \w+\.id\b)`)
	// A mark: its column or alias, or the column it stands beside.
	ours       = regexp.MustCompile(`\{team(?:\|none)?(?::(\w+)(?:\.\w+)?)?\}|(?:\b(\w+)\.)?\b(team_id|id) = \{team\?\}`)
	anyMark    = regexp.MustCompile(`\{team[^}]*\}?`)
	goodMark   = regexp.MustCompile(`^\{team(\?|(\|none)?(:\w+(\.\w+)?)?)\}$`)
	insertInto = regexp.MustCompile(`(?s)INSERT INTO (\w+) \(([^)]*)\)\s*(VALUES|SELECT)\s*(.*)`)
)

// group is what one FROM, UPDATE or INTO names, with what is joined to it.
type group struct {
	verb  string
	names []string // aliases, "" for a table without one; the table's name counts as one, too
	teams bool     // one of its tables is a team's
	every bool     // it says that it is about all, or goes by a row that is judged itself
}

// judge says what a statement lacks.
func judge(tables map[string]bool, text string) (why []string) {
	text = lineNote.ReplaceAllString(inQuotes.ReplaceAllString(text, "''"), "")
	if at := forAll.FindStringIndex(strings.TrimSpace(text)); at != nil && at[0] == 0 {
		return nil
	}
	text = blockNote.ReplaceAllString(forAll.ReplaceAllString(text, "\x01"), "")
	for _, m := range anyMark.FindAllString(text, -1) {
		if !goodMark.MatchString(m) {
			why = append(why, "nobody knows the mark "+m)
		}
	}
	var groups []*group
	for _, m := range piece.FindAllStringSubmatch(text, -1) {
		if m[4]+m[5] != "" {
			if len(groups) > 0 {
				groups[len(groups)-1].every = true
			}
			continue
		}
		if m[1] != "JOIN" || len(groups) == 0 {
			groups = append(groups, &group{verb: m[1]})
		}
		if g := groups[len(groups)-1]; tables[m[2]] {
			g.teams = true
			g.names = append(g.names, m[2], m[3])
		}
	}
	marks := ours.FindAllStringSubmatch(text, -1)
	for _, g := range groups {
		if !g.teams || g.every {
			continue
		}
		if g.verb == "INTO" {
			why = append(why, badInsert(text)...)
			continue
		}
		i := slices.IndexFunc(marks, func(m []string) bool {
			if m[3] == "id" && !slices.Contains(g.names, "teams") {
				return false
			}
			return slices.Contains(g.names, m[1]+m[2])
		})
		if i < 0 {
			why = append(why, "rows of "+strings.Join(slices.DeleteFunc(g.names, func(n string) bool { return n == "" }), ", ")+" of whatever team")
			continue
		}
		marks = slices.Delete(marks, i, i+1)
	}
	return why
}

// badInsert says what is wrong with the team of new rows.
func badInsert(text string) []string {
	m := insertInto.FindStringSubmatch(text)
	if m == nil {
		return []string{"an INSERT without names of columns"}
	}
	if m[3] == "SELECT" {
		return nil // what it selects from is judged
	}
	at := slices.IndexFunc(strings.Split(m[2], ","), func(c string) bool { return strings.TrimSpace(c) == "team_id" })
	if at < 0 {
		return []string{"a new row of " + m[1] + " without its team"}
	}
	for _, row := range regexp.MustCompile(`\(([^()]*)\)`).FindAllStringSubmatch(strings.SplitN(m[4], "ON CONFLICT", 2)[0], -1) {
		if v := strings.Split(row[1], ","); len(v) <= at || strings.TrimSpace(v[at]) != "{team?}" {
			return []string{"a new row of " + m[1] + " whose team is not {team?}"}
		}
	}
	return nil
}
