package tasks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/store/storetest"
)

// An import that is repeated, as after the server was killed, names the tasks that it made before.
func TestImportNamesItsTasks(t *testing.T) {
	st := newStage(t, storetest.SQLite(t))
	lines := []byte(strings.Join([]string{`{"id":"plan-1","title":"Write","status":"open","priority":2,"issue_type":"task"}`,
		`{"id":"plan-2","title":"Test","status":"open","priority":2,"issue_type":"task","dependencies":[{"issue_id":"plan-2","depends_on_id":"plan-1","type":"blocks"}]}`}, "\n"))
	first, ids, err := st.s.ImportNamed(t.Context(), st.who, "prj_1", lines)
	if err != nil || first.Created != 2 || len(ids) != 2 || ids[0] == "" || ids[0] == ids[1] {
		t.Fatalf("%+v, %v", first, err)
	}
	again, same, err := st.s.ImportNamed(t.Context(), st.who, "prj_1", lines)
	if err != nil || again.Created != 0 || !slices.Equal(same, ids) {
		t.Errorf("%+v, %v", again, err)
	}
}
