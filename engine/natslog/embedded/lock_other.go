//go:build !unix

package embedded

import "os"

// lockFile opens the file: a system that refuses to open a file twice for writing
// thereby locks it.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
