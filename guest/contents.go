package guest

// Limits of one request for contents.
const (
	MaxContents      = 1000    // requested files
	MaxContentsBytes = 8 << 20 // bytes after which no further file is begun: the rest is requested again
	MaxContentPiece  = 4 << 20 // bytes of one file in one answer; a larger one comes in pieces
	MaxWalk          = 20_000  // entries of one walk
)

// ContentsRequest requests the contents of files of the worktree, or with ScopeHome of the home.
type ContentsRequest struct {
	Scope string        `json:"scope,omitempty"`
	Items []ContentItem `json:"items"`
}

// ContentItem requests one file. Path is in the wire form of EncodePath.
type ContentItem struct {
	Path   string `json:"path"`
	Have   string `json:"have,omitempty"`   // sha256 in hex of the host's version: the bytes of an equal file are not sent
	ID     string `json:"id,omitempty"`     // to continue a file that comes in pieces: from the previous piece
	Offset int64  `json:"offset,omitempty"` // likewise: the offset
}

// Content is one record of the answer: the state of an item, and how many of its bytes follow the record. Each is in a record of
// AppendRecord. Items are answered in order; when the answer ends early the rest was not begun.
type Content struct {
	Index  int    `json:"index"` // of the item
	State  string `json:"state"`
	Mode   string `json:"mode,omitempty"`  // as git writes it: 100644, 100755, 120000
	Perm   uint32 `json:"perm,omitempty"`  // permission bits, in the home
	Mtime  int64  `json:"mtime,omitempty"` // ms UTC
	Size   int64  `json:"size"`            // of the whole file
	Hash   string `json:"hash,omitempty"`  // sha256 hex of the whole file, where it was read whole
	ID     string `json:"id,omitempty"`    // with ContentPiece: identifies this state of the file
	Offset int64  `json:"offset,omitempty"`
	Length int64  `json:"length"` // bytes that follow: the file, a piece of it, or a link's target
}

// States of a Content.
const (
	ContentWhole = "whole" // the whole file follows
	ContentPiece = "piece" // a part of it follows
	ContentLink  = "link"  // the link's target follows
	ContentSame  = "same"  // it equals the host's version
	ContentMoved = "moved" // it was written to while it was read: request it again
	ContentGone  = "gone"  // there is no such file
	ContentOther = "other" // it is a folder, a device or the like, or may not be read
)

// WalkRequest requests a list of what is below folders or files of the home.
type WalkRequest struct {
	Roots []string `json:"roots"`          // in wire form
	Skip  []string `json:"skip,omitempty"` // names, relative to the home in wire form, that are left out with everything below them
}

// WalkAnswer lists regular files, links and folders, in no order.
type WalkAnswer struct {
	Items     []FileInfo `json:"items"`
	Truncated bool       `json:"truncated"` // there is more
}

// MaxPacked bounds one file sent into the home.
const MaxPacked = 256 << 20

// Packed is one record of a transfer into the home, followed by Length bytes. Paths are in wire form.
type Packed struct {
	Path   string `json:"path"`
	Perm   uint32 `json:"perm"`
	Mtime  int64  `json:"mtime,omitempty"` // ms UTC
	Link   string `json:"link,omitempty"`  // the target of a link, in the wire form; then no bytes follow
	Length int64  `json:"length"`
}
