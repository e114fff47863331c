package jsonlist_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/jsonlist"
)

func TestLists(t *testing.T) {
	var got struct {
		Items jsonlist.List[struct{ Name string }]
		After int
	}
	long := `{"Items": [{"name": "a"}` + strings.Repeat(`,{}`, 3*jsonlist.Max) + `], "After": 7}`
	if err := json.Unmarshal([]byte(long), &got); err != nil || len(got.Items) != jsonlist.Max || got.Items[0].Name != "a" || got.After != 7 {
		t.Errorf("%d elements, %v", len(got.Items), err)
	}
	for raw, want := range map[string]int{`[]`: 0, `null`: 0, ` [1, 2]`: 2, `[1,2,3,4]`: 3} {
		if list, err := jsonlist.Read[int]([]byte(raw), 3); err != nil || len(list) != want {
			t.Errorf("%s: %v, %v", raw, list, err)
		}
	}
	for _, raw := range []string{`{}`, `"text"`, `7`, `["text"]`, ``} {
		if list, err := jsonlist.Read[int]([]byte(raw), 3); err == nil {
			t.Errorf("%s: %v", raw, list)
		}
	}
}
