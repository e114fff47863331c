package guest

// Bounds of a page that is fetched in a sandbox.
const (
	MaxFetchedText  = 400 << 10 // bytes of its text
	MaxFetchedURL   = 8000      // bytes of an address
	MaxFetchedMoves = 10        // redirects that are followed
)

// Fetched is the first line, as JSON, of what the guest's program "fetch" prints; the text of the page follows.
type Fetched struct {
	URL     string `json:"url"` // where the page was, after redirects
	Status  int    `json:"status"`
	MIME    string `json:"mime"`
	Title   string `json:"title,omitempty"`
	Bytes   int64  `json:"bytes"`             // of the page as it was sent
	Cut     bool   `json:"cut,omitempty"`     // the end of the text is missing
	Error   string `json:"error,omitempty"`   // why there is no page
	Refused bool   `json:"refused,omitempty"` // the sandbox may not reach the host; Error has the policy's words
}
