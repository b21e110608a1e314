"""What the thread of a session on disk does in its time, done now."""


def written(session):
    """Have the thread write everything, and keep nothing in main memory."""
    for file in session._large.values():
        session._start(file)
        file.written.result()
        file.content = None
    session._resident.clear()
