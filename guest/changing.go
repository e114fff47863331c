package guest

import (
	"net/http"
	"strings"
)

// Changing reports whether a question to a guest starts, ends or writes something, or speaks with a program inside, by its method and its
// path as sent, without the query. Whoever stands between a host and a guest lets the others pass unasked; what it does not know changes
// something.
func Changing(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return false
	case http.MethodPost:
	default:
		return true
	}
	switch path {
	case "/v1/changes/poll", "/v1/changes/dirty", "/v1/changes/diff", "/v1/contents", "/v1/walk":
		return false
	}
	// How far an output was read, and how large its viewer is: it comes with every few hundred KiB, and with each drag of a window.
	rest, ok := strings.CutPrefix(path, "/v1/processes/")
	id, what, _ := strings.Cut(rest, "/")
	return !ok || CheckID(id) != nil || what != "ack" && what != "resize"
}

// Streams reports whether the body of a question that changes something is a stream: its length, and so its hash, is known only at its end.
func Streams(method, path string) bool {
	switch method {
	case http.MethodPut:
		return path == "/v1/files" || strings.HasPrefix(path, "/v1/bundles/")
	case http.MethodPost:
		if path == "/v1/home" || path == GatewayPath || strings.HasPrefix(path, "/v1/ports/") {
			return true
		}
		rest, ok := strings.CutPrefix(path, "/v1/processes/")
		id, what, _ := strings.Cut(rest, "/")
		return ok && CheckID(id) == nil && what == "input"
	}
	return false
}
