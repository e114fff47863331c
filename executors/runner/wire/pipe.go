package wire

import "net/http"

// PipePath is the path of the pipe to a sandbox's guest.
func PipePath(sandboxID string) string { return "/v1/sandboxes/" + sandboxID + "/pipe" }

// InPipe returns a request to a sandbox's guest in the form that is signed and judged: with the pipe's path before its own, so that a
// command for one sandbox is invalid for another. It shares the header with r.
func InPipe(sandboxID string, r *http.Request) *http.Request {
	out := *r
	u := *r.URL
	uri := r.RequestURI
	if uri == "" {
		uri = r.URL.RequestURI()
	}
	u.Path, u.RawPath = PipePath(sandboxID)+u.Path, ""
	out.URL, out.RequestURI = &u, PipePath(sandboxID)+uri
	return &out
}
