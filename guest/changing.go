package guest

import (
	"net/http"
	"strings"
)

// Changing reports whether a request to a guest starts, ends or writes something, or talks to a program inside, by its method and
// its path as sent, without the query. A proxy between host and guest passes other requests without a signature; an unknown
// request counts as changing.
func Changing(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return false
	case http.MethodPost:
	default:
		return true
	}
	switch path {
	case "/v1/changes/poll", "/v1/changes/dirty", "/v1/changes/diff", "/v1/contents", "/v1/walk", "/v1/search":
		return false
	}
	// Reports of how far an output was read, and of a viewer's size, come with every few hundred KiB, and with each drag of a
	// window.
	rest, ok := strings.CutPrefix(path, "/v1/processes/")
	id, what, _ := strings.Cut(rest, "/")
	return !ok || CheckID(id) != nil || what != "ack" && what != "resize"
}

// Streams reports whether the body of a changing request is a stream, whose length and hash are known only at its end.
func Streams(method, path string) bool {
	switch method {
	case http.MethodPut:
		return path == "/v1/files" || strings.HasPrefix(path, "/v1/bundles/")
	case http.MethodPost:
		if path == "/v1/home" || path == GatewayPath || path == ToolsPath || strings.HasPrefix(path, "/v1/ports/") {
			return true
		}
		rest, ok := strings.CutPrefix(path, "/v1/processes/")
		id, what, _ := strings.Cut(rest, "/")
		return ok && CheckID(id) == nil && what == "input"
	}
	return false
}
