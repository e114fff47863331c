package browser

// applications are paths of Chromium that are in no PATH.
var applications = []string{
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

// userNamespaces reports true: Chromium's sandbox on macOS needs none.
func userNamespaces() bool { return true }
