package server

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

var updateErrors = flag.Bool("update", false, "write docs/errors.md anew")

// seen is one place that makes an error.
type seen struct {
	kind    fault.Kind
	message string
}

// collector finds the stable codes of a package: literals, constants, and what is handed to helpers that take a code.
type collector struct {
	t      *testing.T
	files  []*ast.File
	consts map[string]string
	codes  map[string][]seen
	all    []*collector // of every package, this one too: an exported helper is called from others
}

var kinds = map[string]fault.Kind{"Invalid": fault.Invalid, "Unauthorized": fault.Unauthorized, "Forbidden": fault.Forbidden, "NotFound": fault.NotFound,
	"Conflict": fault.Conflict, "Precondition": fault.Precondition, "TooLarge": fault.TooLarge, "RateLimited": fault.RateLimited, "Quota": fault.Quota,
	"Unavailable": fault.Unavailable, "Gone": fault.Gone, "Unsupported": fault.Unsupported, "Timeout": fault.Timeout, "DiskFull": fault.DiskFull, "Internal": fault.Internal}

func literal(e ast.Expr) (string, bool) {
	switch v := e.(type) {
	case *ast.BasicLit:
		if v.Kind == token.STRING {
			s, err := strconv.Unquote(v.Value)
			return s, err == nil
		}
	case *ast.BinaryExpr: // "a" + "b"
		a, ok := literal(v.X)
		b, ok2 := literal(v.Y)
		return a + b, ok && ok2
	case *ast.ParenExpr:
		return literal(v.X)
	}
	return "", false
}

// words is the text of a message, with … for what is put together only as the program runs; "" where all of it is.
func words(e ast.Expr) string {
	sum, ok := e.(*ast.BinaryExpr)
	if !ok {
		text, _ := literal(e)
		return text
	}
	a, b := words(sum.X), words(sum.Y)
	if a == "" && b == "" {
		return ""
	}
	return cmp.Or(a, "…") + cmp.Or(b, "…")
}

func (c *collector) note(code string, k fault.Kind, message string) {
	if code != "" {
		c.codes[code] = append(c.codes[code], seen{k, message})
	}
}

// run looks at every call of fault.New and fault.Wrap.
func (c *collector) run() {
	for _, f := range c.files {
		var stack []ast.Node
		ast.Inspect(f, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if x, isIdent := sel2ident(sel); !ok || !isIdent || x != "fault" || (sel.Sel.Name != "New" && sel.Sel.Name != "Wrap") {
				return true
			}
			args := call.Args
			if sel.Sel.Name == "Wrap" {
				args = args[1:]
			}
			c.call(args, stack)
			return true
		})
	}
}

func sel2ident(sel *ast.SelectorExpr) (string, bool) {
	if sel == nil {
		return "", false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return x.Name, true
}

// call notes one call: kind, code, message.
func (c *collector) call(args []ast.Expr, stack []ast.Node) {
	if len(args) < 3 {
		return
	}
	var k fault.Kind
	if s, ok := args[0].(*ast.SelectorExpr); ok {
		k = kinds[s.Sel.Name]
	}
	message := words(args[2])
	switch code := args[1].(type) {
	case *ast.BasicLit:
		s, _ := literal(code)
		c.note(s, k, message)
	case *ast.Ident:
		if s, ok := c.consts[code.Name]; ok {
			c.note(s, k, message)
			return
		}
		c.helper(code.Name, k, stack)
	}
}

// helper notes the codes handed to the function around a call whose code is that function's parameter.
func (c *collector) helper(param string, k fault.Kind, stack []ast.Node) {
	for i := len(stack) - 1; i >= 0; i-- {
		var typ *ast.FuncType
		name := ""
		switch fn := stack[i].(type) {
		case *ast.FuncDecl:
			typ, name = fn.Type, fn.Name.Name
		case *ast.FuncLit:
			typ = fn.Type
			if as, ok := stack[i-1].(*ast.AssignStmt); ok && len(as.Lhs) == 1 {
				if id, ok := as.Lhs[0].(*ast.Ident); ok {
					name = id.Name
				}
			}
		default:
			continue
		}
		at, of := -1, -1
		n := 0
		for _, f := range typ.Params.List {
			for _, p := range f.Names {
				if p.Name == param {
					at = n
				}
				if p.Name == "format" || p.Name == "message" {
					of = n
				}
				n++
			}
		}
		if at < 0 || name == "" {
			continue
		}
		callers := []*collector{c}
		if ast.IsExported(name) {
			callers = c.all
		}
		for _, caller := range callers {
			caller.calls(name, at, of, k)
		}
		return
	}
}

// calls notes the codes that this package hands to the helper called name: its argument number at is the code, of the message.
func (c *collector) calls(name string, at, of int, k fault.Kind) {
	for _, f := range c.files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) <= at {
				return true
			}
			called := ""
			switch fn := call.Fun.(type) {
			case *ast.Ident:
				called = fn.Name
			case *ast.SelectorExpr:
				called = fn.Sel.Name
			}
			if called != name {
				return true
			}
			message := ""
			if of >= 0 && len(call.Args) > of {
				message = words(call.Args[of])
			}
			switch code := call.Args[at].(type) {
			case *ast.BasicLit:
				s, _ := literal(code)
				c.note(s, k, message)
			case *ast.Ident:
				c.note(c.consts[code.Name], k, message)
			}
			return true
		})
	}
}

// codesOf collects the codes of the whole code base.
func codesOf(t *testing.T, root string) map[string][]seen {
	t.Helper()
	dirs := map[string][]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "data" || d.Name() == "testing" ||
			d.Name() == "executortest" || d.Name() == "fake"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".gen.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dirs[filepath.Dir(path)] = append(dirs[filepath.Dir(path)], f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]seen{}
	var packages []*collector
	for dir, files := range dirs {
		if strings.HasSuffix(dir, "internal/fault") {
			continue
		}
		c := &collector{t: t, files: files, consts: map[string]string{}, codes: all}
		for _, f := range files {
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.CONST {
					continue
				}
				for _, s := range g.Specs {
					v := s.(*ast.ValueSpec) //nolint:errcheck // a const has no other
					for i, n := range v.Names {
						if i < len(v.Values) {
							if text, ok := literal(v.Values[i]); ok {
								c.consts[n.Name] = text
							}
						}
					}
				}
			}
		}
		packages = append(packages, c)
	}
	for _, c := range packages {
		c.all = packages
		c.run()
	}
	// Those that Echo's own refusals get, and that kinds without a code fall back to.
	for code, s := range map[string]seen{
		"method_not_allowed": {"method_not_allowed", "This address does not take that method. The Allow header says which it takes."},
		"invalid_parameter":  {fault.Invalid, "A parameter of the address has the wrong form."},
		"route_not_found":    {fault.NotFound, "The API has no such address. GET /api/v1/openapi.yaml lists them."},
		"refused":            {fault.Invalid, "The request was refused; the status says why."},
	} {
		all[code] = append(all[code], s)
	}
	return all
}

var (
	verb     = regexp.MustCompile(`%[-+#0-9.\[\]]*[a-zA-Z]`)
	codeForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// errorsDoc writes the page.
func errorsDoc(codes map[string][]seen) []byte {
	var b bytes.Buffer
	b.WriteString(`# Errors

Every answer that is not a success is ` + "`application/problem+json`" + `:

` + "```json" + `
{"code": "workspace_not_ready", "message": "The workspace is creating: ...", "details": {"field": "name"}, "request_id": "req_..."}
` + "```" + `

` + "`code`" + ` is stable: write programs against it. ` + "`message`" + ` is for people and may change. ` + "`details`" + ` depends on the code;
` + "`field`" + ` names the field of the request that is wrong, ` + "`retry_after_ms`" + ` says when to try again, ` + "`output`" + ` holds the
output of a program such as git. ` + "`request_id`" + ` finds the request in the server's log.

| status | means |
|---|---|
| 400 | the request itself is wrong: fix it |
| 401 | nobody is signed in |
| 402 | a quota or budget forbids it |
| 403 | you are a member, but your role does not have the right; ` + "`details.action`" + ` names it |
| 404 | it does not exist, or you have no access to it: the two look the same |
| 405 | the address does not take that method |
| 409 | it has changed, or its state does not allow this |
| 410 | it existed and does not any more |
| 412 | ` + "`If-Match`" + ` did not match |
| 413 | too large |
| 429 | too often; ` + "`Retry-After`" + ` says how long to wait |
| 500 | an internal error of the server |
| 501 | this place or build cannot do it |
| 503 | something the server needs is unavailable; also while the server starts or stops |
| 504 | it took too long |
| 507 | no space left on the disk |

## Codes

Some are met on the command line only. Written by ` + "`go test ./server -run TestErrorCodes -update`" + ` from the code.

| code | status | message |
|---|---|---|
`)
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		var statuses, messages []string
		for _, s := range codes[code] {
			status := rest.StatusOf[s.kind]
			if s.kind == "method_not_allowed" {
				status = 405
			}
			if status != 0 && !slices.Contains(statuses, strconv.Itoa(status)) {
				statuses = append(statuses, strconv.Itoa(status))
			}
			m := strings.ReplaceAll(verb.ReplaceAllString(s.message, "…"), "%%", "%")
			m = strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(m)
			if m != "" && !slices.Contains(messages, m) {
				messages = append(messages, m)
			}
		}
		if len(statuses) == 0 {
			statuses = []string{"by cause"}
		}
		if len(messages) == 0 {
			messages = []string{"What failed, in the program's own words."}
		}
		slices.Sort(statuses)
		slices.Sort(messages)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", code, strings.Join(statuses, ", "), strings.Join(messages, "<br>"))
	}
	return b.Bytes()
}

// Every stable code of the code base is in docs/errors.md.
func TestErrorCodesAreDocumented(t *testing.T) {
	codes := codesOf(t, "..")
	if len(codes) < 80 {
		t.Fatalf("only %d codes were found", len(codes))
	}
	for code := range codes {
		if !codeForm.MatchString(code) {
			t.Errorf("code %q is not snake_case", code)
		}
	}
	const page = "../docs/errors.md"
	if *updateErrors {
		if err := os.WriteFile(page, errorsDoc(codes), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if !bytes.Contains(text, []byte("| `"+code+"` |")) {
			t.Errorf("docs/errors.md lacks %s. Run: go test ./server -run TestErrorCodes -update", code)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllSubmatch(text, -1) {
		if _, known := codes[string(row[1])]; !known {
			t.Errorf("docs/errors.md has %s, which nothing answers. Run: go test ./server -run TestErrorCodes -update", row[1])
		}
	}
}
