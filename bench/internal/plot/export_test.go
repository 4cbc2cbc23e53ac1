package plot

// WritePNG is writePNG, for tests.
var WritePNG = writePNG
