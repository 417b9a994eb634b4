-- The platform has no bitfields of its own; the build wants the file.
base 64
