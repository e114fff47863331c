package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
)

// mostRegistrations is how many services are registered with another one after it was made. It may fall and never grow: pass a new one to a
// constructor.
const mostRegistrations = 12

// registration matches the methods that register one service with another, and those that set a value of later.
var registration = regexp.MustCompile(`^(Use|On|Connect|Join|Attach|Follow|Watch|GateBy|Set|Store$)([A-Z]|$)`)

// The test counts registrations in the source, wherever they are: in links, in a function of its own, or elsewhere.
func TestFewRegistrationsAfterConstruction(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	fields := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if st, ok := n.Type.(*ast.StructType); ok && n.Name.Name == "later" {
					fields = st.Fields.NumFields()
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || len(n.Args) == 0 { // nothing is registered
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "filepath" || pkg.Name == "strings" || pkg.Name == "errors") {
					return true
				}
				if registration.MatchString(sel.Sel.Name) {
					found = append(found, set.Position(n.Pos()).String()+" "+sel.Sel.Name)
				}
			}
			return true
		})
	}
	if len(found) > mostRegistrations {
		t.Errorf("%d registrations, more than %d:\n%s", len(found), mostRegistrations, strings.Join(found, "\n"))
	}
	if len(found) < mostRegistrations {
		t.Errorf("%d registrations: lower mostRegistrations", len(found))
	}
	a := built(t)
	for v, i := reflect.ValueOf(&a.later).Elem(), 0; i < fields; i++ {
		if v.Field(i).Addr().MethodByName("Load").IsValid() && v.Field(i).FieldByName("v").Pointer() == 0 {
			t.Errorf("nothing was given to later.%s", v.Type().Field(i).Name)
		}
	}
	for _, l := range a.links() {
		if l.why == "" {
			t.Error("a link without a reason")
		}
	}
}

// Two instances of what excludes, bounds or tells the time compile, and exclude nothing: of each there is one, however deep in which part.
func TestWhatMustBeSharedIsShared(t *testing.T) {
	t.Parallel()
	a := built(t)
	shared := map[reflect.Type]int{ // by how many it is held at least
		reflect.TypeFor[*workspaces.Locks](): 4,
		reflect.TypeFor[*jobs.Jobs]():        3,
		reflect.TypeFor[*billing.Clock]():    2,
		reflect.TypeFor[*events.Bus]():       4,
		reflect.TypeFor[*store.DB]():         10,
	}
	instances, holders := map[reflect.Type]map[uintptr]bool{}, map[reflect.Type]int{}
	seen := map[[2]any]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				return
			}
			if _, ok := shared[v.Type()]; ok {
				if instances[v.Type()] == nil {
					instances[v.Type()] = map[uintptr]bool{}
				}
				instances[v.Type()][v.Pointer()] = true
				holders[v.Type()]++
			}
			at := [2]any{v.Type(), v.Pointer()}
			if seen[at] || !strings.HasPrefix(v.Type().Elem().PkgPath(), "github.com/parawork/parawork/") {
				return
			}
			seen[at] = true
			walk(v.Elem())
		case reflect.Interface:
			walk(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for it := v.MapRange(); it.Next(); {
				walk(it.Value())
			}
		}
	}
	walk(reflect.ValueOf(a))
	for what, least := range shared {
		if len(instances[what]) != 1 || holders[what] < least {
			t.Errorf("%v: %d instances, held %d times, at least %d expected", what, len(instances[what]), holders[what], least)
		}
	}
}
