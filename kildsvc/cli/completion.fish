# fish completion for kildsvc. `kildsvc completion fish` prints it.
function __kildsvc_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    # fish completes --option=value as one word.
    set -l before (string match -r -- '^--[^=]*=' $current)
    for line in ($words[1] __complete (count $words) $words $current 2>/dev/null)
        set -l parts (string split \t -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $current
            case file
                __fish_complete_path $current
            case command
                __fish_complete_command
            case '*'
                printf '%s%s\t%s\n' "$before" $parts[2] $parts[3]
        end
    end
end
complete --command kildsvc --no-files --arguments '(__kildsvc_complete)'
