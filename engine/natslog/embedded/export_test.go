package embedded

var DirectoryError = directoryError
