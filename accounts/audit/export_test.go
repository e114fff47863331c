package audit_test

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func export(t *testing.T, b *bench, q audit.Query, f audit.Format) string {
	t.Helper()
	var out strings.Builder
	if err := b.Export(t.Context(), &out, q, f); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func verifyExport(t *testing.T, b *bench, text string) (audit.Report, string) {
	t.Helper()
	r, err := b.VerifyExport(t.Context(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.What)
	}
	return r, strings.Join(out, "\n")
}

func TestAnExportCanBeChecked(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBench(t, db, 30)
		b.add(t, "team_1", 1200) // more than a page
		all := audit.Query{Chain: "team_1"}
		text := export(t, b, all, audit.JSON)
		var doc struct {
			Chain string
			Items []struct {
				Seq  int64
				Data map[string]string
			}
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Chain != "team_1" || len(doc.Items) != 1200 || doc.Items[1199].Seq != 1200 || doc.Items[7].Data["n"] != "7" {
			t.Fatal(err, len(doc.Items))
		}
		if r, found := verifyExport(t, b, text); r.Entries != 1200 || r.First != 1 || r.Last != 1200 || found != "" {
			t.Errorf("%+v", r)
		}
		// Each entry of a part by itself.
		part := export(t, b, audit.Query{Chain: "team_1", Target: "77"}, audit.JSON)
		if r, found := verifyExport(t, b, part); r.Entries == 0 || found != "" {
			t.Errorf("%+v", r)
		}
		// A file that was changed, and a log that was.
		if _, found := verifyExport(t, b, strings.Replace(text, `"n":"7"`, `"n":"8"`, 1)); !strings.Contains(found, "the entry was changed") {
			t.Errorf("found %q", found)
		}
		b.exec(t, `DELETE FROM audit WHERE chain = 'team_1' AND seq = 9`)
		if _, found := verifyExport(t, b, text); !strings.Contains(found, "does not have this entry any more") {
			t.Errorf("found %q", found)
		}
		for _, odd := range []string{"", "[]", "{}", `{"items":[]}`, text[:len(text)/2], text[:len(text)-4]} {
			if _, err := b.VerifyExport(t.Context(), strings.NewReader(odd)); err == nil {
				t.Errorf("taken for an export: %.40q", odd)
			}
		}
		if text := export(t, b, audit.Query{Chain: "team_none"}, audit.JSON); !json.Valid([]byte(text)) {
			t.Errorf("%q", text)
		}
	})
}

// ASVS 1.2.10: exported cells are no formulas.
func TestASVS_1_2_10_CSVHoldsNoFormulas(t *testing.T) {
	t.Parallel()
	b := newBench(t, storetest.SQLite(t), 0)
	for _, name := range []string{`=HYPERLINK("http://x","y")`, "+1", "-1", "@SUM(A1)", "  =1", `"=1"`, "＝1", "|calc", "\t=1", "plain, \"quoted\"", "a=b"} {
		if err := b.Append(t.Context(), audit.Entry{Chain: "team_1", Action: "a.b", TargetName: name}); err != nil {
			t.Fatal(err)
		}
	}
	text := export(t, b, audit.Query{Chain: "team_1"}, audit.CSV)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 12 || rows[0][0] != "time" || rows[0][10] != "target" {
		t.Fatal(rows, err)
	}
	for i, want := range []string{`'=HYPERLINK("http://x","y")`, "'+1", "'-1", "'@SUM(A1)", "'  =1", `'"=1"`, "'＝1", "'|calc", `\u0009=1`, "plain, \"quoted\"", "a=b"} {
		if got := rows[i+1][10]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
				t.Errorf("a formula: %q", cell)
			}
		}
	}
	if text := export(t, b, audit.Query{Chain: "team_none"}, audit.CSV); !strings.HasPrefix(text, "time,seq,") {
		t.Errorf("%q", text)
	}
}
