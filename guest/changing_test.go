package guest_test

import (
	"testing"

	"github.com/parawork/parawork/guest"
)

func TestChanging(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path      string
		changing, streams bool
	}{
		{"GET", "/v1/hello", false, false},
		{"GET", "/v1/processes/p_1/output/stdout", false, false},
		{"POST", "/v1/changes/poll", false, false},
		{"POST", "/v1/changes/dirty", false, false},
		{"POST", "/v1/contents", false, false},
		{"POST", "/v1/search", false, false},
		{"POST", "/v1/processes/p_1/ack", false, false},
		{"POST", "/v1/processes/p_1/resize", false, false},
		{"POST", "/v1/processes/p_1%2Fx/resize", true, false},
		{"POST", "/v1/processes/../resize", true, false},
		{"POST", "/v1/processes//ack", true, false},
		{"POST", "/v1/processes/ack", true, false},
		{"POST", "/v1//contents", true, false},
		{"POST", "/v1/contents/", true, false},
		{"POST", "/v1/processes", true, false},
		{"POST", "/v1/processes/p_1/input", true, true},
		{"POST", "/v1/processes/p_1/signal", true, false},
		{"POST", "/v1/ports/80", true, true},
		{"POST", "/v1/home", true, true},
		{"POST", "/v1/gateway", true, true},
		{"POST", "/v1/tools", true, true},
		{"POST", "/v1/shutdown", true, false},
		{"PUT", "/v1/files", true, true},
		{"PUT", "/v1/bundles/x", true, true},
		{"POST", "/v1/bundles/x/unpack", true, false},
		{"DELETE", "/v1/files", true, false},
		{"BREW", "/v1/contents", true, false},
	} {
		if got := guest.Changing(c.method, c.path); got != c.changing {
			t.Errorf("Changing(%s %s) = %v", c.method, c.path, got)
		}
		if got := guest.Streams(c.method, c.path); got != c.streams {
			t.Errorf("Streams(%s %s) = %v", c.method, c.path, got)
		}
	}
}
