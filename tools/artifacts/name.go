package artifacts

import (
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
)

// CheckName rejects a name that is no clean relative path of visible characters.
func CheckName(name string) error {
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
		return badName("It must be valid UTF-8 of 1 to %d bytes.", maxName)
	case path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return badName("It must be a relative path such as report.md or charts/load.png, without empty parts and without `..`.")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }):
		return badName("It must have neither control characters nor backslashes.")
	}
	return nil
}

func badName(format string, args ...any) error {
	return fault.New(fault.Invalid, "artifact_name_invalid", "The name of the artifact cannot be used. "+format, args...).With("field", "name")
}

// checkMetadata bounds metadata.
func checkMetadata(m map[string]string) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "artifact_metadata_invalid", format, args...).With("field", "metadata")
	}
	if len(m) > maxMetadata {
		return bad("An artifact has at most %d metadata entries.", maxMetadata)
	}
	for k, v := range m {
		if k == "" || len(k) > 64 || len(v) > maxValue || !utf8.ValidString(k+v) || strings.ContainsRune(k+v, 0) {
			return bad("A metadata entry has a name of 1 to 64 bytes and a value of at most %d bytes, both valid UTF-8.", maxValue)
		}
	}
	return nil
}

// types are the MIME types of extensions, the same on every server.
var types = map[string]string{
	".avif": "image/avif", ".css": "text/css", ".csv": "text/csv", ".diff": "text/x-diff", ".gif": "image/gif", ".gz": "application/gzip", ".htm": "text/html", ".html": "text/html",
	".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript", ".json": "application/json", ".jsonl": "application/jsonl", ".log": "text/plain", ".markdown": "text/markdown",
	".md": "text/markdown", ".mjs": "text/javascript", ".mov": "video/quicktime", ".mp3": "audio/mpeg", ".mp4": "video/mp4", ".ogg": "audio/ogg", ".patch": "text/x-diff",
	".pdf": "application/pdf", ".png": "image/png", ".svg": "image/svg+xml", ".tar": "application/x-tar", ".tsv": "text/tab-separated-values", ".txt": "text/plain", ".wav": "audio/wav",
	".webm": "video/webm", ".webp": "image/webp", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip",
}

// typeOf is the MIME type of a content: as given, else by the name's extension, else by its first bytes.
func typeOf(given, name string, head []byte) string {
	if given != "" {
		return given
	}
	if t := types[strings.ToLower(path.Ext(name))]; t != "" {
		return t
	}
	t, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	return t
}

// checkType normalizes a MIME type somebody gave; "" stays.
func checkType(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	t, params, err := mime.ParseMediaType(given)
	if err != nil || len(given) > 128 || !strings.Contains(t, "/") {
		return "", fault.New(fault.Invalid, "artifact_mime_invalid", "The MIME type must be one such as text/markdown.").With("field", "mime")
	}
	return mime.FormatMediaType(t, params), nil
}

// IsText reports whether a content of this MIME type is a text.
func IsText(mimeType string) bool {
	t, _, _ := mime.ParseMediaType(mimeType)
	switch t {
	case "application/json", "application/jsonl", "application/xml", "application/yaml", "application/javascript", "application/x-sh", "application/toml":
		return true
	}
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml") && t != "image/svg+xml"
}
