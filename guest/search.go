package guest

// Bounds of a search.
const (
	MaxFound      = 2000    // files or matching lines in one answer
	MaxFoundBytes = 1 << 20 // of their paths and texts
	MaxFoundLine  = 4 << 10 // bytes of a line; of a longer one the part around the match
	MaxContext    = 20      // lines around a match
	MaxSearchMs   = 60_000
	MaxPattern    = 4 << 10 // bytes of an expression or a glob
	MaxListed     = 200_000 // files of one stream that finds them by name
	MaxListPiece  = 512     // files in one record of a stream
)

// SearchRequest asks for files below the root, or for lines in them. Paths and globs are in wire form.
type SearchRequest struct {
	Path       string `json:"path,omitempty"`        // a folder or a file; "" = the root
	Glob       string `json:"glob,omitempty"`        // which files: * and ? stay within a name, ** does not, {a,b} is either; one without a slash is about names
	Pattern    string `json:"pattern,omitempty"`     // RE2, within a line; "" = every file is found
	IgnoreCase bool   `json:"ignore_case,omitempty"` // of the pattern
	Lines      bool   `json:"lines,omitempty"`       // answer with the lines that match
	Context    int    `json:"context,omitempty"`     // with Lines: as many before and after
	Hidden     bool   `json:"hidden,omitempty"`      // also names that begin with a dot
	Ignored    bool   `json:"ignored,omitempty"`     // also files that git ignores
	Limit      int    `json:"limit"`                 // files or, with Lines, matching lines in the answer
	TimeoutMs  int64  `json:"timeout_ms"`
}

// SearchAnswer is what a search found: newest files first or, with Lines, by path.
type SearchAnswer struct {
	Items   []Found `json:"items"`
	Files   int     `json:"files"`             // that were found, also those left out
	Matches int     `json:"matches"`           // lines that match, also those left out
	Skipped int     `json:"skipped,omitempty"` // files too large to be searched
	Partial string  `json:"partial,omitempty"` // why not everything was looked at: a Search... constant
}

// Why a search is not complete.
const (
	SearchTime  = "time"
	SearchFiles = "files" // there are more than one search looks at
	SearchLimit = "limit" // of a stream: as much as was asked for has been found
)

// SearchPiece is one record of a stream of what a search finds: files in the order they are found, or last the totals, without files.
type SearchPiece struct {
	Items []Found       `json:"items,omitempty"`
	End   *SearchAnswer `json:"end,omitempty"`
}

// Found is a file that was found.
type Found struct {
	Path    string      `json:"path"`
	Size    int64       `json:"size"`
	Mtime   int64       `json:"mtime"`             // ms UTC
	Matches int         `json:"matches,omitempty"` // lines that match
	Lines   []FoundLine `json:"lines,omitempty"`
}

// FoundLine is a line that matches, or one around it.
type FoundLine struct {
	Number int    `json:"n"`
	Text   string `json:"text"`
	Match  bool   `json:"match,omitempty"`
	At     int    `json:"at,omitempty"`  // where in Text the first match begins
	Cut    bool   `json:"cut,omitempty"` // Text is a part of the line
}
